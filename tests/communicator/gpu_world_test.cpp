// SPDX-License-Identifier: Apache-2.0
// The second world of ranks that name GPUs: the ways that were found between these, and what their
// copies take. Four NVLinks join the two GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "communicator/calls/local_steps.hpp"
#include "emulation/cuda/cuda_on_test.hpp"
#include "planner/planner.hpp"
#include "rank_threads.hpp"
#include "rendezvous/meeting_ranks.hpp"

namespace coll::testing {
namespace {

using emucuda::CUDA_SUCCESS;
using emulation_test::cuda;
using emulation_test::is_emulated;
using emulation_test::name_of;
using emulation_test::OnDevice;

/// Two of the ranks share a GPU.
const std::vector<std::string> kGpus{"0", "1", "0"};

class GpuWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    const OnDevice device;  // a program has initialized CUDA before it joins
    if (!is_emulated()) GTEST_SKIP() << "its GPUs have other links";
    ASSERT_TRUE(own_machine().ok()) << own_machine().status().text();
  }
};

std::vector<Membership> members_on_gpus(const char* transports = "cuda_ipc,shm,tcp") {
  std::vector<Meeting> meetings = star(static_cast<Rank>(kGpus.size()));
  std::vector<Membership> all(kGpus.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < kGpus.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto choices = transport_choices(transports);
      Result<Membership> made =
          agree_on_membership(assembly_of(meetings[rank], in(seconds(100))), *choices, "", {},
                              own_place({.name = kGpus[rank], .visible = {}}));
      ASSERT_TRUE(made.ok()) << made.status().text();
      all[rank] = *std::move(made);
    });
  }
  threads.clear();
  return all;
}

/// Of the link with that name; 0: there is none.
double us_per_byte(const Network& network, std::string_view name) {
  const auto found = std::ranges::find(network.links, name, &Network::Link::name);
  return found == network.links.end() ? 0 : found->us_per_byte;
}

TEST_F(GpuWorld, HasTheWaysThatWereFoundAndWhatWasMeasured) {
  const std::vector<Membership> all = members_on_gpus();
  const LinkCost& costs = default_cost_model()->constants.link;
  std::vector<DeviceCopyCosts> copies;
  for (const int device : {0, 1}) copies.push_back(device_copy_costs(device));
  for (const Membership& each : all) {
    ASSERT_NE(each.gpu_world, nullptr);
    const World& world = *each.gpu_world;
    const Network &plain = *world.network, &now = *world.measured_network;
    for (const Network* const network : {&plain, &now}) {
      for (const char* const way : {"GPU0 to GPU1", "GPU1 to GPU0"})
        EXPECT_DOUBLE_EQ(us_per_byte(*network, way),
                         1e-3 / static_cast<float>(100 * costs.nvlink_yield));
    }
    EXPECT_DOUBLE_EQ(us_per_byte(plain, "memory of GPU0"),
                     2 * 1e-3 / costs.within_gpu_gbytes_per_s);
    EXPECT_DOUBLE_EQ(us_per_byte(now, "memory of GPU0"),
                     2 * 1e-3 / static_cast<float>(copies[0].within_gbytes_per_s));
    EXPECT_EQ(plain.step_us, world.costs().gpu.copy_start_us);
    EXPECT_DOUBLE_EQ(now.step_us,
                     static_cast<float>(std::max(copies[0].start_us, copies[1].start_us)));
  }
}

TEST_F(GpuWorld, IsWhatAJoinedCommunicatorPlansWith) {
  RanksOptions options;
  options.devices = kGpus;
  options.transports = "cuda_ipc,shm,tcp";
  std::vector<std::string> plans(kGpus.size());
  run_ranks(static_cast<Rank>(kGpus.size()), options, [&](Communicator& comm) {
    Call call;
    call.collective = Collective::all_gather;
    call.count = 16 << 20;
    call.type = DataType::float32;
    const Result<std::string> text = comm.explain_call(call);
    ASSERT_TRUE(text.ok()) << text.status().text();
    EXPECT_NE(text->find("moved by: "), std::string::npos) << *text;
    EXPECT_NE(text->find("of the GPUs: a copy begins in"), std::string::npos) << *text;
    EXPECT_NE(text->find("(memory of GPU0)"), std::string::npos) << *text;
    plans[static_cast<std::size_t>(comm.rank())] = text->substr(0, text->find("moved by:"));
  });
  for (const std::string& plan : plans) EXPECT_EQ(plan, plans[0]);
}

/// Sockets join the processes; the GPUs are on one machine all the same.
TEST_F(GpuWorld, PlansOfGpusNeedNoMemoryThatProcessesShare) {
  const std::vector<Membership> sharing = members_on_gpus(),
                                apart = members_on_gpus("cuda_ipc,tcp");
  for (std::size_t rank = 0; rank < kGpus.size(); ++rank) {
    const Membership& each = apart[rank];
    ASSERT_NE(each.gpu_world, nullptr);
    EXPECT_EQ(each.world.layout.hosts(), 3);
    EXPECT_EQ(each.gpu_world->layout, sharing[rank].gpu_world->layout);
    const auto &links = each.gpu_world->network->links,
               &wanted = sharing[rank].gpu_world->network->links;
    ASSERT_EQ(links.size(), wanted.size());
    for (std::size_t i = 0; i < links.size(); ++i) EXPECT_EQ(links[i].name, wanted[i].name);
    EXPECT_NE(each.fused_world, nullptr);
    for (std::size_t peer = 0; peer < kGpus.size(); ++peer)
      EXPECT_EQ(each.paths[peer].of_gpus, peer != rank);
  }
}

TEST_F(GpuWorld, WithoutCudaIpcNoGpuReachesAnother) {
  for (const char* const transports : {"shm,tcp", "tcp"}) {
    for (const Membership& each : members_on_gpus(transports)) {
      EXPECT_EQ(each.fused_world, nullptr);
      EXPECT_EQ(each.gpu_world->layout.hosts(), 3);  // as if between hosts: all is staged
      for (const PeerPath& path : each.paths) EXPECT_FALSE(path.of_gpus);
    }
  }
}

/// A call whose buffers lie where they should allocates nothing for them.
TEST_F(GpuWorld, MovesBuffersOfTheGpuWithoutStepsOfTheProcessor) {
  const OnDevice device;
  const Result<StreamDevice*> gpu = StreamDevice::of(0);
  ASSERT_TRUE(gpu.ok()) << gpu.status().text();
  emucuda::CUdeviceptr memory = 0;
  EXPECT_CUDA_OK(cuMemAlloc_v2(&memory, 8192));
  std::vector<float> on_host(1024);
  for (const bool placed : {false, true}) {
    Request request;
    request.call = {
        .collective = Collective::all_reduce, .type = DataType::float32, .root = 0, .count = 1024};
    request.input = reinterpret_cast<void*>(memory);
    request.output = placed ? on_host.data() : reinterpret_cast<void*>(memory + 4096);
    ScratchPool pool;
    const auto steps = LocalSteps::prepare(request, 0, 2, pool, false, *gpu);
    ASSERT_TRUE(steps.ok()) << steps.status().text();
    EXPECT_EQ(*steps != nullptr, placed);
  }
  EXPECT_CUDA_OK(cuMemFree_v2(memory));
}

}  // namespace
}  // namespace coll::testing
