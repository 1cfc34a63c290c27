// SPDX-License-Identifier: Apache-2.0
// A lane is the list of steps it stands for, however it keeps them.
#include "schedule/lane.hpp"

#include <gtest/gtest.h>

#include <random>

#include "schedule/builder.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

using Steps = std::vector<Step>;

void expect_reads_as(const Lane& lane, const Steps& steps) {
  ASSERT_EQ(lane.size(), steps.size());
  EXPECT_EQ(lane.empty(), steps.empty());
  std::size_t i = 0;
  for (const Step& step : lane) {
    ASSERT_LT(i, steps.size());
    EXPECT_EQ(step, steps[i]) << "step " << i << ", walking";
    EXPECT_EQ(lane[i], steps[i]) << "step " << i << ", by its index";
    ++i;
  }
  EXPECT_EQ(i, steps.size());
  EXPECT_EQ(lane, Lane(steps));
}

TEST(Lane, ReadsAsTheStepsItStandsFor) {
  std::mt19937_64 random(test::test_seed());
  const auto number = [&](int most) { return static_cast<Rank>(random() % std::uint64_t(most)); };
  for (int round = 0; round < 200; ++round) {
    Lane lane;
    Steps steps;
    for (int piece = number(5); piece > 0; --piece) {
      Steps body;
      std::vector<Stride> strides;
      for (int i = 1 + number(3); i > 0; --i) {
        const auto chunk = static_cast<std::uint32_t>(1000 + number(1000));
        body.push_back({.source = 500 + number(99), .from = {}, .into = output(chunk)});
        body.back().wait_lane = 1;
        body.back().wait_step = 500 + number(99);
        strides.push_back({.source = number(9) - 4, .into = number(9) - 4, .wait_step = number(2)});
      }
      const auto times = static_cast<std::uint32_t>(number(6));
      for (std::uint32_t k = 0; k < times; ++k) {
        for (std::size_t i = 0; i < body.size(); ++i) {
          Step step = body[i];
          step.source += strides[i].source * static_cast<Rank>(k);
          step.into.chunk += static_cast<std::uint32_t>(strides[i].into) * k;
          step.wait_step += strides[i].wait_step * static_cast<Rank>(k);
          steps.push_back(step);
        }
      }
      lane.append(body, strides, times);
    }
    expect_reads_as(lane, steps);
    if (steps.empty()) continue;
    const Lane same = lane;
    Steps other = steps;
    other[random() % other.size()].count = 7;
    EXPECT_NE(lane, Lane(other));
    lane.append(steps[0]);
    EXPECT_NE(lane, same);
    EXPECT_EQ(lane.take_from(steps.size()), Steps{steps[0]});
    expect_reads_as(lane, steps);
  }
}

/// Appends the same by a repeat and by a loop.
template <class Body>
void expect_a_loop(Rank first, Rank end, std::size_t most_stored, Body body) {
  Lane repeated;
  Lane looped;
  LaneBuilder repeat(repeated);
  LaneBuilder loop(looped);
  repeat.signal(1);
  loop.signal(1);
  repeat.repeat(first, end, [&](Rank k) { body(repeat, k); });
  for (Rank k = first; k < end; ++k) body(loop, k);
  repeat.signal(2);
  loop.signal(2);
  expect_reads_as(repeated, Steps(looped.begin(), looped.end()));
  EXPECT_LE(repeated.stored(), most_stored + 2);
}

TEST(Lane, IsBuiltByARepeatAsByALoop) {
  for (const Rank n : {1, 2, 3, 4, 5, 7, 64, 1000}) {
    for (const Rank rank : {0, 1, n / 2, n - 1}) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << n);
      const auto after = [&](Rank i) { return (rank + i) % n; };
      const auto before = [&](Rank i) { return (rank - i + n) % n; };
      const auto chunk = [](Rank r) { return static_cast<std::uint32_t>(r); };
      // Two numbers that wrap around at different places.
      expect_a_loop(1, n, 14, [&](LaneBuilder& lane, Rank i) {
        lane.send(input(chunk(after(i))), after(i));
        lane.receive(before(i), output(chunk(before(i))));
      });
      // The first and the last are not as the others.
      expect_a_loop(0, n, 8, [&](LaneBuilder& lane, Rank i) {
        const Operand sum = i == 0 ? input(0) : output(0);
        lane.receive_reduce(after(i), sum, output(0)).finish = i == n - 1;
      });
      // The steps of an iteration become fewer.
      expect_a_loop(0, n, 6, [&](LaneBuilder& lane, Rank i) {
        if (i < n / 3) lane.await(i);
        if (i < n / 2) lane.signal(i);
      });
      // In places and by strides as in one of several hosts.
      expect_a_loop(0, n, 4, [&](LaneBuilder& lane, Rank i) {
        lane.send(input(100 + 3 * chunk(after(i))), 5 + 8 * after(i), 3);
      });
      expect_a_loop(0, n, 4, [&](LaneBuilder& lane, Rank i) {
        Step& step = lane.send(input(0), 3);
        step.wait_lane = 1;
        step.wait_step = 2 * i + 1;
      });
      // Repeats of repeats are loops, too, though only the outer ones are kept.
      expect_a_loop(0, 3, 3U * chunk(n), [&](LaneBuilder& lane, Rank i) {
        lane.repeat(0, n, [&](Rank k) { lane.signal(i + k); });
      });
    }
  }
}

}  // namespace
}  // namespace coll
