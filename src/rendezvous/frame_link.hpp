// SPDX-License-Identifier: Apache-2.0
// One socket that carries control messages, never waiting.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sys/clock.hpp"
#include "sys/fd.hpp"

namespace coll {

/// Sends and receives whole frames (4 bytes of length, little endian, then the text: as
/// sys/socket_frame) on a non-blocking socket. Never reads past the frame it is at, so that the
/// socket can be handed on between two frames.
class FrameLink {
 public:
  static constexpr std::size_t kAll = ~std::size_t{0};

  FrameLink() = default;
  /// Frames longer than `limit` bytes are garbage.
  FrameLink(Fd fd, std::size_t limit) : fd_(std::move(fd)), limit_(limit) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// What poll(2) should wait for.
  [[nodiscard]] short events() const;

  /// Queues a frame and sends what goes now.
  void send(std::string_view frame);
  /// The same for a frame that many links send: it is not copied.
  void send(std::shared_ptr<const std::string> frame);
  /// The same, and sends nothing yet.
  void queue(std::shared_ptr<const std::string> frame);
  /// Sends what goes now of what is queued, `most` bytes of it.
  void push(std::size_t most = kAll);
  [[nodiscard]] bool sending() const { return !out_.empty(); }
  /// Waits until all that is queued has left, at most until the deadline.
  void finish_sending(Deadline until);
  /// Bytes that have left so far.
  [[nodiscard]] std::uint64_t sent() const { return sent_; }

  enum class Got { frame, nothing, closed, garbage };
  /// The next frame, if it is there. `closed`: the other side is gone (an error counts as that).
  Got receive(std::string& frame);
  /// The same, reading `budget` bytes at most, which it takes off: `nothing` where that is all.
  Got receive(std::string& frame, std::size_t& budget);

  void close() { *this = FrameLink(); }
  /// Ends the connection, for all who have a copy of the socket, such as the program that gave it:
  /// both sides read its end.
  void shut() noexcept;
  /// Does so and closes it.
  void hang_up();
  Fd take() { return std::move(fd_); }

 private:
  struct Outgoing {
    std::array<char, 4> head{};
    std::shared_ptr<const std::string> body;
    std::size_t sent = 0;  ///< of both
  };
  Fd fd_;
  std::size_t limit_ = 0;
  std::vector<Outgoing> out_;
  std::uint64_t sent_ = 0;
  std::array<char, 4> head_{};
  std::size_t head_have_ = 0;
  std::string body_;
  std::size_t body_have_ = 0;
};

}  // namespace coll
