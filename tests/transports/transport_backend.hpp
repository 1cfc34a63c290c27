// SPDX-License-Identifier: Apache-2.0
// What the conformance suite needs to know of a backend, and pairs of ranks to test with.
#pragma once
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory_resource>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "sys/fd.hpp"
#include "test_seed.hpp"
#include "transports/transport.hpp"

namespace coll::test {

struct Backend {
  std::string name;
  std::function<Result<std::unique_ptr<Transport>>(const TransportSpec&)> make;
  bool crosses_processes = true;  ///< ranks can be processes
  bool sees_death = false;        ///< reports peer_lost when the peer's process dies
  /// A message that a call has ended with arrives even if its sender is killed: memory or the
  /// kernel has it. A queue pair ends with its process, and what was not acknowledged is lost.
  bool outlives_sender = true;
  bool can_lend = false;  ///< its connections have `lending`
  bool lends = false;     ///< … which lends long messages here, wherever they lie
  /// Of payloads that are lent.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
  bool uses_descriptors = true;  ///< cannot connect without file descriptors
  int messages = 400;            ///< each way, of an exchange of messages of all lengths
  /// A bare socket to the door of the transport with this descriptor; unset where there is no door.
  std::function<Fd(std::string_view descriptor)> knock = {};
  /// Why it cannot be tested on this machine; empty: it can.
  std::function<std::string()> absent = {};
};
inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.name;
}
inline std::string name_of_backend(const ::testing::TestParamInfo<Backend>& backend) {
  return backend.param.name;
}

/// Time limits here are for a machine of usual speed: the factor for this one. verbs_suite.py sets
/// it for an emulated machine.
inline int patience() {
  const char* factor = std::getenv("TEST_PATIENCE");
  return factor == nullptr ? 1 : std::max(1, std::atoi(factor));
}

/// Repeats `done` until it is true or 20 s, times the patience, have passed (false).
template <class Done>
bool eventually(Done done) {
  const auto end = std::chrono::steady_clock::now() + patience() * std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    sched_yield();
  }
  return true;
}

/// What an executor does for a connection while it waits.
inline void nudge(Connection& connection) {
  if (ProgressSource* source = connection.progress_source()) source->progress();
}

/// Has all that was ever sent left, and has the peer read all that was lent?
inline bool all_flushed(Connection& connection) {
  return connection.flushed(connection.mark());
}

inline TransportSpec spec_of(Rank rank, Rank size, std::uint64_t job) {
  return {.rank = rank, .size = size, .job = {job, ~job}, .interface = {}};
}
inline std::uint64_t fresh_job() {
  static std::mt19937_64 jobs(std::random_device{}());
  return jobs();
}

/// The ranks of one communicator, all driven by this thread.
class Ranks {
 public:
  explicit Ranks(const Backend& backend, Rank size = 2) : job(fresh_job()) {
    for (Rank rank = 0; rank < size; ++rank) {
      auto made = backend.make(spec_of(rank, size, job));
      EXPECT_TRUE(made.ok()) << made.status().text();
      if (made.ok()) transports.push_back(*std::move(made));
    }
  }

  std::unique_ptr<Connection> open(Rank from, ConnectionSpec spec) {
    auto opened = transports[at(from)]->open(spec, transports[at(spec.peer)]->descriptor());
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  void poll() {
    for (auto& transport : transports) transport->poll();
  }
  /// Both ends are ready, or one has failed.
  bool settle(Connection& a, Connection& b) {
    return eventually([&] {
      poll();
      const auto over = [](Connection& c) { return c.ready() || !c.status().ok(); };
      return over(a) && over(b);
    });
  }

  const std::uint64_t job;
  std::vector<std::unique_ptr<Transport>> transports;

 private:
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
};

/// Two ranks and the two ends of a ready connection between them.
class Pair {
 public:
  explicit Pair(const Backend& backend, std::size_t slot_bytes = 1024, std::uint32_t credits = 4)
      : ranks(backend) {
    if (ranks.transports.size() != 2) return;
    for (const Rank rank : {0, 1})
      ends[rank] = ranks.open(
          rank, {.peer = 1 - rank, .lane = 0, .slot_bytes = slot_bytes, .credits = credits});
    if (ends[0] && ends[1]) ready = ranks.settle(*ends[0], *ends[1]) && both_ready();
  }

  /// `done`, with both ends moving.
  template <class Done>
  bool drive(Done done) {
    return eventually([&] {
      if (done()) return true;
      nudge(*ends[0]);
      nudge(*ends[1]);
      return false;
    });
  }

  Ranks ranks;
  std::unique_ptr<Connection> ends[2];
  bool ready = false;

 private:
  bool both_ready() {
    for (auto& end : ends) EXPECT_TRUE(end->status().ok()) << end->status().text();
    return ends[0]->ready() && ends[1]->ready();
  }
};

}  // namespace coll::test
