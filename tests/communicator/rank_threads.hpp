// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process, each with a communicator.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "communicator/communicator.hpp"
#include "rendezvous/unique_id.hpp"

namespace coll::testing {

struct RanksOptions {
  std::string transports = "shm,tcp";
  std::vector<TransportChoice> choices;  ///< instead of `transports`
  SharedSettings settings;
  std::vector<std::string> devices;  ///< by rank: the GPU that it uses; none: all are on cores
  double deadline_s = 30;            ///< a hang ends with a report of who was where
};

/// Joins `size` communicators, runs `body` on each in its own thread, and leaves. A rank that
/// cannot join fails the test with the reason.
inline void run_ranks(Rank size, const RanksOptions& options,
                      const std::function<void(Communicator&)>& body) {
  const Result<UniqueId> id = make_unique_id("");
  ASSERT_TRUE(id.ok()) << id.status().text();
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Joining joining;
      Result<MeetingPlace> place = place_of(*id, "");
      ASSERT_TRUE(place.ok()) << place.status().text();
      joining.place = *std::move(place);
      joining.rank = rank;
      joining.size = size;
      joining.deadline_s = options.deadline_s;
      joining.connect_s = 30;
      joining.settings = options.settings;
      joining.transports = options.choices;
      if (!options.devices.empty()) {
        joining.device.name = options.devices[static_cast<std::size_t>(rank)];
      }
      if (joining.transports.empty()) {
        Result<std::vector<TransportChoice>> named = transport_choices(options.transports);
        ASSERT_TRUE(named.ok()) << named.status().text();
        joining.transports = *std::move(named);
      }
      Result<std::unique_ptr<Communicator>> joined = Communicator::join(joining);
      ASSERT_TRUE(joined.ok()) << "rank " << rank << ": " << joined.status().text();
      body(**joined);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace coll::testing
