// SPDX-License-Identifier: Apache-2.0
// Joins that go on while their caller does something else.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "c_api/c_api_door.hpp"

/// A join in a thread of its own.
struct coll_joining {
  /// Waits for the join's end.
  ~coll_joining();

  std::mutex mutex;              // guards the next three
  std::condition_variable over;  ///< `ended` became true
  bool ended = false;
  coll::Status status;              ///< how it ended
  std::unique_ptr<coll_comm> made;  ///< until it is handed out
  bool handed_out = false;
  std::thread thread;
  unsigned forks = coll::LiveCommunicators::of_process().forks();
};

namespace coll {

/// Makes a communicator.
using Join = std::function<Status(coll_comm_t* comm)>;

/// Runs it here, or in a thread if the config wants a handle.
Status carry_out(coll_joining_t* handle, Join join, coll_comm_t* comm);

}  // namespace coll
