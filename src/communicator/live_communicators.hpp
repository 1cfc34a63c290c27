// SPDX-License-Identifier: Apache-2.0
// The communicators that a process holds, for its end and its forks.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "communicator/communicator.hpp"

namespace coll {

/// When the process exits (by `exit`, or a return from main), its communicators leave in order: to
/// end without having destroyed them is no death. A process that is killed, crashes, or exits while
/// one of its threads or streams is inside a call, has died.
///
/// In a child made by fork its parent's communicators are replaced by ones that refuse every call.
class LiveCommunicators {
 public:
  using Owner = std::unique_ptr<Communicator>;

  /// The process's only one.
  static LiveCommunicators& of_process();

  /// To be called before the first communicator joins: objects that are made after it, and hold
  /// one, are then destroyed before the exit handler runs.
  void expect_exit();
  void enter(Owner& owner);
  /// Returns when the exit handler is done with it, if that runs now.
  void forget(Owner& owner);

  /// How many forks lie between this process and the first one: what has threads belongs to one
  /// count.
  [[nodiscard]] unsigned forks() const { return forks_.load(std::memory_order_relaxed); }

 private:
  LiveCommunicators();
  void leave_all();
  void abandon_all() noexcept;  ///< a child without memory for it ends

  std::mutex mutex_;  // guards what follows
  bool exit_expected_ = false;
  std::set<Owner*> owners_;
  std::vector<Owner>
      left_behind_;  ///< the parent's, never to be destroyed: their threads are there
  std::atomic<unsigned> forks_{0};
};

}  // namespace coll
