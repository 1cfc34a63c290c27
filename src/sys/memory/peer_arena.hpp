// SPDX-License-Identifier: Apache-2.0
// Other processes' arenas, mapped once for all who read them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

enum class PeerAccess : std::uint8_t { read, write };

/// Where a piece of another process's memory is mapped here.
struct PeerWindow {
  std::uint64_t begin = 0;  ///< where in its file
  std::size_t bytes = 0;
  std::byte* data = nullptr;

  [[nodiscard]] bool has(std::uint64_t offset, std::size_t length) const {
    return offset >= begin && offset - begin < bytes && length <= bytes - (offset - begin);
  }
};

/// Keeps a piece of another process's memory mapped.
class PeerMapping {
 public:
  /// Of the piece of `file` that has `offset`: SharedPlace::kWindow bytes, or what there is of
  /// them. Of nothing if the file is shorter.
  static Result<PeerMapping> map(const Fd& file, std::uint64_t offset, PeerAccess access);
  PeerMapping(PeerMapping&& other) noexcept : window_(std::exchange(other.window_, {})) {}
  PeerMapping& operator=(PeerMapping&&) = delete;
  ~PeerMapping();

  [[nodiscard]] const PeerWindow& window() const { return window_; }

 private:
  explicit PeerMapping(const PeerWindow& window) : window_(window) {}

  PeerWindow window_;
};

/// The arena of another process. Every communicator is passed it by each peer. The process keeps
/// one descriptor of it, and maps each of its pieces once. Any thread may use it.
class PeerArena {
 public:
  /// Of this file: the one that is known, if any.
  static std::shared_ptr<PeerArena> of(Fd file);

  explicit PeerArena(Fd file) : file_(std::move(file)) {}
  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  /// Does process `pid` have it at `place`, and could its other descriptors be opened there? Who
  /// was found to have it is not asked again.
  bool is_of(std::int64_t pid, const SharedPlace& place);
  /// The piece that has `offset`, mapped for as long as this lives.
  Result<PeerWindow> window(std::uint64_t offset, PeerAccess access);

 private:
  const Fd file_;
  // Under the mutex of all arenas.
  std::int64_t pid_ = 0;  ///< of the process that was found to have it
  std::map<std::pair<std::uint64_t, PeerAccess>, PeerMapping> windows_;  ///< by number and access
};

}  // namespace coll
