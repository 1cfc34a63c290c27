// SPDX-License-Identifier: Apache-2.0
// What moves the connections of a verbs transport: completions, words of peers, changes of ports.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "sys/fd.hpp"
#include "transports/transport.hpp"
#include "transports/verbs/verbs_device.hpp"

namespace coll {

class VerbsConnection;

/// Polls the completion queues for all connections together. Their sockets, and events of devices,
/// are looked at now and then, and after each nap.
class VerbsProgress final : public ProgressSource {
 public:
  /// The devices outlive it.
  static Result<std::unique_ptr<VerbsProgress>> make(
      const std::vector<std::unique_ptr<VerbsDevice>>& devices);

  void progress() override;
  bool has_news() override;
  [[nodiscard]] int wait_fd() const override { return epoll_.get(); }

  // --- for the connections
  /// An id for a pair of the connection.
  std::uint32_t take_id(VerbsConnection& connection);
  /// It is connected: its socket is watched from now on.
  Status add(VerbsConnection& connection);
  /// Forgets it and its ids.
  void remove(VerbsConnection& connection);
  /// For connections that want to be looked at in the next round.
  bool& attention() { return attention_; }
  /// Takes all completions that there are; true if there were any.
  bool take_completions();

 private:
  static constexpr std::uint32_t kRoundsToLook = 256;

  explicit VerbsProgress(const std::vector<std::unique_ptr<VerbsDevice>>& devices)
      : devices_(devices) {}
  Status watch(int fd);
  void look(bool at_all);
  void fail_all(const Status& why);

  const std::vector<std::unique_ptr<VerbsDevice>>& devices_;
  Fd epoll_;
  std::vector<VerbsConnection*> by_id_;  ///< null where it is gone
  std::vector<VerbsConnection*> all_;    ///< those that are connected, to a peer that is there
  std::uint32_t rounds_ = 0;
  std::uint64_t next_look_ns_ = 0;
  bool armed_ = false;
  bool attention_ = false;  ///< some connection wants to be looked at
};

}  // namespace coll
