// SPDX-License-Identifier: Apache-2.0
// The host stream, operations that run later, in order.
#pragma once
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "communicator/communicator.hpp"

namespace coll {

/// A queue with a progress thread of its own. Enqueueing takes the operation's turn of its
/// communicator, so that the order in which the user called is the order in which it runs.
class HostStream {
 public:
  static Result<std::unique_ptr<HostStream>> create();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  /// Waits for what was enqueued.
  ~HostStream();

  /// Enqueues a checked request; waits only if kCapacity operations are outstanding.
  void enqueue(Communicator& communicator, const Request& request);
  /// Waits for everything; the first failure since the last wait.
  Status synchronize();
  /// The same without waiting: Code::in_progress while something is outstanding.
  Status query();

 private:
  static constexpr std::size_t kCapacity = 1024;
  struct Item {
    Communicator* communicator = nullptr;
    Request request;
    std::uint64_t turn = 0;
  };

  HostStream() = default;
  void work();
  Status take_failure();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Item, kCapacity> items_;
  std::uint64_t enqueued_ = 0, finished_ = 0;
  bool closing_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace coll
