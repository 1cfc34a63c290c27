// SPDX-License-Identifier: Apache-2.0
// Kept activations in host memory come back as they went, however late the link copies, and take
// the memory of the formula.
#include "offload/host_activations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace training {
namespace host_activations_test {

constexpr auto kToHost = DeviceLink::Way::to_host;
constexpr auto kToDevice = DeviceLink::Way::to_device;

/// What a forward pass writes as the segment's output.
float value_of_output(std::size_t leaf, std::size_t segment) {
  return static_cast<float>(100 * leaf + segment + 1);
}

/// A stage that computes nothing: passes touch the buffers as the units' would.
struct Passes {
  std::vector<std::size_t> sizes;
  HostActivations& activations;

  void write(std::size_t leaf, std::size_t segment) {
    std::fill_n(activations.output(segment), sizes[segment], value_of_output(leaf, segment));
  }
  void forward(std::size_t leaf, std::size_t slot) {
    for (std::size_t segment = 0; segment < sizes.size(); ++segment) {
      activations.settle(segment);
      write(leaf, segment);
      activations.store(slot, segment);
    }
  }
  void backward(std::size_t leaf, std::size_t slot) {
    for (std::size_t segment = sizes.size() + 1; segment-- > 0;) {
      activations.bring_input(slot, segment);
      if (segment < sizes.size()) write(leaf, segment);
      if (segment == 0) continue;
      const float* input = activations.output(segment - 1);
      EXPECT_EQ(std::count(input, input + sizes[segment - 1], value_of_output(leaf, segment - 1)),
                sizes[segment - 1])
          << "micro-batch " << leaf << ", input of segment " << segment;
    }
  }
};

TEST(HostActivations, ComeBackWherePassesAlternate) {
  for (const double speed : {0.0, 1e6}) {  // the slow one takes 2 ms for a copy
    for (const std::size_t segments : {1U, 2U, 3U, 4U, 8U}) {
      SCOPED_TRACE(testing::Message() << segments << " outputs at " << speed << " B/s");
      Arena device;
      HostMemory host{Arena(), DeviceLink(speed)};
      const std::vector<std::size_t> sizes(segments, 500);
      HostActivations activations(sizes, 2, device, host);
      Passes passes{sizes, activations};
      passes.forward(0, 0);
      for (std::size_t leaf = 1; leaf < 4; ++leaf) {
        passes.forward(leaf, leaf % 2);
        passes.backward(leaf - 1, (leaf - 1) % 2);
      }
      passes.backward(3, 1);
      EXPECT_EQ(host.link.bytes(kToHost), 4 * segments * 500 * sizeof(float));
      EXPECT_EQ(host.link.bytes(kToDevice), 4 * segments * 500 * sizeof(float));
    }
  }
}

TEST(HostActivations, TakeThreeBuffersAndAPlaceForEachOutput) {
  const std::pair<std::vector<std::size_t>, std::size_t> cases[] = {
      {{7}, 7}, {{7, 8}, 15}, {{7, 8, 9}, 24}, {{1, 2, 30, 10, 20, 3, 5, 6, 4}, 60}};
  for (const auto& [sizes, elements] : cases) {
    Arena device;
    HostMemory host;
    const HostActivations activations(sizes, 5, device, host);
    std::size_t sum = 0;
    for (const std::size_t size : sizes) sum += size;
    EXPECT_EQ(HostActivations::device_elements(sizes), elements);
    EXPECT_EQ(device.bytes(Use::activations), elements * sizeof(float));
    EXPECT_EQ(device.bytes(), elements * sizeof(float));
    EXPECT_EQ(host.arena.bytes(Use::activations), 5 * sum * sizeof(float));
  }
}

TEST(HostActivations, ComputationGoesOnWhileTheLinkCopies) {
  Arena device;
  constexpr std::size_t kBytes = 400;
  HostMemory host{Arena(), DeviceLink(2000)};  // an output takes 200 ms
  HostActivations activations({100, 100, 100}, 1, device, host);
  for (const std::size_t segment : {0U, 1U}) activations.store(0, segment);
  EXPECT_LT(host.link.bytes(kToHost), 2 * kBytes) << "the second is under way";
  activations.settle(1);
  EXPECT_EQ(host.link.bytes(kToHost), 2 * kBytes);
  activations.bring_input(0, 3);
  activations.settle(1);
  EXPECT_EQ(host.link.bytes(kToDevice), 2 * kBytes) << "the input of segment 2 came by itself";
}

TEST(HostActivations, EndWithCopiesUnderWay) {
  Arena device;
  HostMemory host{Arena(), DeviceLink(20'000)};
  HostActivations activations({100, 100, 100}, 1, device, host);
  for (const std::size_t segment : {0U, 1U, 2U}) activations.store(0, segment);
}

}  // namespace host_activations_test
}  // namespace training
