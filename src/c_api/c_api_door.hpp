// SPDX-License-Identifier: Apache-2.0
// The handles of the C ABI and its door, where failures become status codes and nothing throws
// through.
#pragma once
#include <collectives/collectives.h>

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "communicator/communicator.hpp"
#include "communicator/device/device_stream.hpp"
#include "communicator/host_stream.hpp"
#include "communicator/live_communicators.hpp"
#include "communicator/stream_event.hpp"
#include "communicator/work.hpp"
#include "sys/float_mode.hpp"

struct coll_comm {
  ~coll_comm() { coll::LiveCommunicators::of_process().forget(communicator); }

  std::unique_ptr<coll::Communicator> communicator;
  coll::Joining settings;  ///< for communicators made from it
};

struct coll_stream {
  // One of the two is there.
  std::unique_ptr<coll::HostStream> stream;
  std::shared_ptr<coll::DeviceStream> device_stream;
  unsigned forks = coll::LiveCommunicators::of_process().forks();  ///< before it was made
};

struct coll_event {
  coll::StreamEvent event;
  unsigned forks = coll::LiveCommunicators::of_process().forks();
};

struct coll_work {
  std::shared_ptr<coll::Work> work;
  unsigned forks = coll::LiveCommunicators::of_process().forks();
};

namespace coll {

/// What coll_last_error says: of each thread, errno's way.
struct LastError {
  std::string text;
  Status status;
};
LastError& last_error();

/// The code is given also where memory has run out for the text.
inline coll_status_t give(const Status& status) noexcept {
  if (status.ok()) [[likely]] {
    return COLL_SUCCESS;
  }
  if (status.code() != Code::in_progress) {
    LastError& last = last_error();
    last.status = status;
    try {
      last.text = status.text();
    } catch (const std::bad_alloc&) {
      last.text = "out of memory";  // so short that it needs none
    }
  }
  return static_cast<coll_status_t>(status.code());
}

/// Every function's door. What can still throw behind it is memory running out.
template <class Body>
coll_status_t guarded(Body body) noexcept {
  const UsualFloatMode mode;  // a thread that `body` starts inherits it
  return give(caught(body));
}

/// A stream of a process cannot be used in a child made by fork.
Status check_stream(coll_stream_t stream);

/// A work of a process cannot be used in a child made by fork.
Status check_work(const char* function, coll_work_t work);

inline Status null_argument(const char* function, const char* name) {
  return failed(Code::invalid_argument, std::string(function) + ": " + name + " is null");
}

/// Is the struct there that a function fills, and initialised?
template <class Info>
Status check_filled(const char* function, const char* name, const char* initialiser,
                    const Info* info) {
  if (info == nullptr) return null_argument(function, name);
  if (info->size >= sizeof *info && info->version != 0) return {};
  return failed(Code::invalid_argument, std::string(function) + ": " + name + " is not initialised",
                std::string("begin with ") + initialiser);
}

inline coll_status_t refuse_null(const char* function, const char* name) {
  return guarded([&] { return null_argument(function, name); });
}

}  // namespace coll
