// SPDX-License-Identifier: Apache-2.0
// Trials of how to write slots, on machines that are made up.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

#include "transports/shm/shm_slot_trial.hpp"

namespace coll::test {

constexpr std::size_t kBytes = 10'000;

/// Nanoseconds that a message takes each way, by ShmWay.
struct Times {
  std::array<std::uint64_t, kShmWays> write, read;
};

/// Messages go until the trial has chosen; the receiver is always a few behind.
inline ShmWay chosen(ShmSlotTrial& trial, const Times& times, std::size_t behind = 5,
                     std::set<ShmWay>* tried = nullptr, bool streaming = false) {
  ShmReadTimes read;
  std::deque<ShmTimed> under_way;
  for (int message = 0; !trial.has_settled(); ++message) {
    if (message == 5000) {
      ADD_FAILURE() << "no choice";
      break;
    }
    const auto way = static_cast<std::size_t>(trial.way());
    if (tried != nullptr) tried->insert(trial.way());
    under_way.push_back(trial.timed());
    trial.wrote(kBytes, times.write[way], read, {.streaming = streaming});
    if (under_way.size() <= behind) continue;
    const ShmTimed timed = under_way.front();
    under_way.pop_front();
    if (timed.trial != 0) read.add(timed, kBytes, times.read[timed.way]);
  }
  return trial.way();
}

/// Until the trial after a choice. Messages take `ns`.
inline std::size_t bytes_until_next(ShmSlotTrial& trial, std::uint64_t ns) {
  ShmReadTimes none;
  std::size_t bytes = 0;
  for (; trial.has_settled(); bytes += kBytes) trial.wrote(kBytes, ns, none);
  return bytes;
}

/// A trial that begins now.
inline ShmSlotTrial new_trial(ShmSlotSize size = ShmSlotSize::large) {
  // Many bytes later.
  ShmSlotTrial trial(size, ShmWay::few);
  ShmReadTimes none;
  for (int i = 0; i < 256 && trial.has_settled(); ++i) trial.wrote(1 << 20, 1000, none);
  EXPECT_FALSE(trial.has_settled());
  return trial;
}

}  // namespace coll::test
