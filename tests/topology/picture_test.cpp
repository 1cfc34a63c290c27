// SPDX-License-Identifier: Apache-2.0
// Pictures of machines keep their promises: nothing lies on anything else.
#include "topology/picture/picture.hpp"

#include <gmock/gmock.h>

#include "machine_of.hpp"
#include "real_machine.hpp"

namespace coll {
namespace {

using Box = Picture::Box;

using test::machine_of;

bool disjoint(const Box& a, const Box& b) {
  return a.x + a.width < b.x || b.x + b.width < a.x || a.y + a.height < b.y || b.y + b.height < a.y;
}

void expect_tidy(const Picture& picture) {
  for (std::size_t at = 0; at < picture.boxes.size(); ++at) {
    const Box& box = picture.boxes[at];
    SCOPED_TRACE(testing::PrintToString(box.text));
    double x = 0, y = 0, right = picture.width, bottom = picture.height;
    if (box.parent >= 0) {
      ASSERT_LT(static_cast<std::size_t>(box.parent), at);
      const Box& parent = picture.boxes[static_cast<std::size_t>(box.parent)];
      x = parent.x;
      y = parent.y + kTextHeight * static_cast<double>(parent.text.size());
      right = parent.x + parent.width;
      bottom = parent.y + parent.height;
    }
    EXPECT_GT(box.x, x);
    EXPECT_GT(box.y, y);
    EXPECT_LT(box.x + box.width, right);
    EXPECT_LT(box.y + box.height, bottom);
    EXPECT_LE(kTextHeight * static_cast<double>(box.text.size()), box.height);
    for (std::size_t line = 0; line < box.text.size(); ++line)
      EXPECT_LT(text_width(box.text[line], line == 0), box.width);
    for (std::size_t other = 0; other < at; ++other)
      if (picture.boxes[other].parent == box.parent) {
        EXPECT_TRUE(disjoint(box, picture.boxes[other]))
            << testing::PrintToString(picture.boxes[other].text);
      }
  }
  for (std::size_t at = 0; at < picture.dots.size(); ++at)
    for (std::size_t other = 0; other < at; ++other) {
      const auto& a = picture.dots[at];
      const auto& b = picture.dots[other];
      EXPECT_GT(std::hypot(a.x - b.x, a.y - b.y), a.radius + b.radius) << a.text << " " << b.text;
    }
  // The circle of links lies in its box, below the words.
  const auto circle = std::find_if(picture.boxes.begin(), picture.boxes.end(), [](const Box& box) {
    return box.kind == NodeKind::link_switch;
  });
  if (!picture.dots.empty()) {
    ASSERT_NE(circle, picture.boxes.end());
    const auto& dot = picture.dots.front();
    EXPECT_GT(dot.y - dot.radius,
              circle->y + kTextHeight * static_cast<double>(circle->text.size()));
  }
}

std::size_t boxes(const Picture& picture, NodeKind kind) {
  return static_cast<std::size_t>(std::count_if(picture.boxes.begin(), picture.boxes.end(),
                                                [&](const Box& box) { return box.kind == kind; }));
}

TEST(Picture, IsTidyForAnyNumberOfGpus) {
  for (int gpus = 0; gpus <= 16; ++gpus)
    for (const char* links : {"all", "ring", "pairs", "switchx18"})
      for (const char* rest : {"nic:0", "nic:8@400G pciswitch:2", "package:2 numa:4 nic:3"}) {
        const Picture picture =
            draw(machine_of("gpu:" + std::to_string(gpus) + " nvlink:" + links + " " + rest));
        SCOPED_TRACE(gpus);
        expect_tidy(picture);
        EXPECT_EQ(boxes(picture, NodeKind::gpu), static_cast<std::size_t>(gpus));
      }
}

TEST(Picture, DrawsEqualHostsOnce) {
  const Picture picture = draw(machine_of(R"({"cluster": 1, "hosts": [
      {"count": 40, "topology": "gpu:4 nvlink:all nic:4@400G", "per_rack": 4},
      {"count": 3, "topology": "gpu:2 nic:2@400G", "per_rack": 3}],
    "network": {"leaf": "rail", "pod": 4, "above": [{"switches": 5}]}})"));
  expect_tidy(picture);
  EXPECT_EQ(boxes(picture, NodeKind::host), 2U);
  EXPECT_EQ(boxes(picture, NodeKind::rack), 2U);
  EXPECT_EQ(boxes(picture, NodeKind::network_switch), 1U + 5U);
  const std::string svg = to_svg(picture);
  for (const char* text : {">10 x rack<", ">4 x host<", ">3 x host<", ">42 x switch of level 1<"})
    EXPECT_THAT(svg, testing::HasSubstr(text));
}

TEST(Picture, HoldsTextAsTextAndNoScript) {
  Topology topology = machine_of("gpu:2 nvlink:all");
  topology.source = "<script>alert('x')</script> & \xff";
  const std::string svg = to_svg(draw(topology));
  EXPECT_EQ(svg.find("<script"), svg.npos);
  EXPECT_THAT(svg, testing::HasSubstr(">&lt;script>alert('x')&lt;/script> &amp; ?<"));
  EXPECT_THAT(svg, testing::HasSubstr(">GPU1</text>"));
}

class RealPicture : public real_machines::Machine {};

TEST_P(RealPicture, IsTidy) {
  const Picture picture = draw(topology);
  expect_tidy(picture);
  EXPECT_EQ(boxes(picture, NodeKind::gpu), topology.all(NodeKind::gpu).size());
  EXPECT_EQ(boxes(picture, NodeKind::nic), topology.all(NodeKind::nic).size());
}

std::vector<std::string> machines() {
  std::vector<std::string> all;
  for (const char* kind : {"hwloc", "nccl", "smi"})
    for (const std::string& name : real_machines::names(kind)) all.push_back(name);
  return all;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealPicture);
INSTANTIATE_TEST_SUITE_P(All, RealPicture, testing::ValuesIn(machines()), real_machines::test_name);

}  // namespace
}  // namespace coll
