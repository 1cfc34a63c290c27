// SPDX-License-Identifier: Apache-2.0
// Schedules as a person reads them.
#include "schedule/print.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_schedules.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace {

using testing::HasSubstr;

TEST(Print, NamesEveryStepOfTheBuilder) {
  Lane lane;
  LaneBuilder add(lane);
  const auto kind = [](const Step& step) { return kind_of(step); };
  EXPECT_EQ(kind(add.copy(input(0), output(0))), "copy");
  EXPECT_EQ(kind(add.send(input(0), 1)), "send");
  EXPECT_EQ(kind(add.receive(1, output(0))), "receive");
  EXPECT_EQ(kind(add.copy_send(input(0), output(0), 1)), "copy_send");
  EXPECT_EQ(kind(add.receive_send(1, output(0), 2)), "receive_send");
  EXPECT_EQ(kind(add.forward(1, 2)), "forward");
  EXPECT_EQ(kind(add.reduce(input(0), scratch(0), output(0))), "reduce");
  EXPECT_EQ(kind(add.receive_reduce(1, input(0), output(0))), "receive_reduce");
  EXPECT_EQ(kind(add.receive_reduce_send(1, input(0), 2)), "receive_reduce_send");
  EXPECT_EQ(kind(add.receive_reduce_copy_send(1, input(0), output(0), 2)),
            "receive_reduce_copy_send");
  EXPECT_EQ(kind(add.signal(1)), "signal");
  EXPECT_EQ(kind(add.await(1)), "await");
  EXPECT_EQ(lane.size(), 12U);
}

TEST(Print, OneLinePerStep) {
  EXPECT_EQ(print(samples::ring_all_reduce(3)[1]),
            "ring all_reduce, rank 1 of 3: 3 input chunks, 3 output chunks, 0 scratch chunks\n"
            "lane 0  0  send                      from input 1, to rank 2\n"
            "lane 0  1  receive_reduce_send       from rank 0, with input 0, to rank 2\n"
            "lane 0  2  receive_reduce_copy_send  from rank 0, with input 2, into output 2, "
            "to rank 2, finish\n"
            "lane 0  3  receive_send              from rank 0, into output 1, to rank 2\n"
            "lane 0  4  receive                   from rank 0, into output 0\n");
  EXPECT_THAT(print(samples::two_lane_chain_broadcast(3, 2, 2)[0]),
              HasSubstr("lane 1  1  send  from output 1, to rank 1, after lane 0 step 1\n"));
  EXPECT_THAT(print(samples::tree_broadcast(3, 2, 4)[0]), HasSubstr("broadcast root 2, rank 0"));
  EXPECT_THAT(print(samples::tree_broadcast(3, 2, 4)[0]), HasSubstr("into output 0..3\n"));
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Draw, AnArrowPerMessage) {
  for (const auto& [name, set] : samples::all()) {
    std::size_t messages = 0;
    for (const Schedule& schedule : set) {
      for (const Lane& lane : schedule.lanes) {
        for (const Step& step : lane) messages += step.sends() ? 1U : 0U;
      }
    }
    const std::string picture = draw(set);
    EXPECT_EQ(occurrences(picture, "marker-end"), messages) << name;
    EXPECT_EQ(occurrences(picture, ">rank "), set.size()) << name;
    EXPECT_EQ(occurrences(picture, "<text"), occurrences(picture, "</text>")) << name;
    EXPECT_THAT(picture, testing::StartsWith("<svg xmlns="));
    EXPECT_THAT(picture, testing::EndsWith("</svg>\n"));
  }
}

TEST(Draw, SaysWhatItIsAndWhatCannotRun) {
  samples::Set set = samples::tree_broadcast(4, 3, 2);
  set[0].algorithm = "a<b & c";
  EXPECT_THAT(draw(set), HasSubstr("a&lt;b &amp; c broadcast, 4 ranks, root 3</text>"));
  EXPECT_THAT(draw(set), HasSubstr("out 0..1</text>"));
  EXPECT_EQ(occurrences(draw(set), "can never run"), 0U);
  samples::change(set[1].lanes[0], [](std::vector<Step>& steps) { steps[0].source = 2; });
  EXPECT_THAT(draw(set), HasSubstr("can never run</text>"));
}

}  // namespace
}  // namespace coll
