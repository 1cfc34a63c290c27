// SPDX-License-Identifier: Apache-2.0
// The table of libibverbs: whole or refused, and what it says of devices is what the kernel says.
#include "sys/verbs/verbs_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "sys/verbs/rdma_ports.hpp"

namespace coll {
namespace {

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& loaded = load_verbs();
    if (!loaded.ok()) {
      ASSERT_EQ(loaded.status().code(), Code::unsupported);
      EXPECT_NE(loaded.status().text().find("libibverbs1"), std::string::npos)
          << "which package: " << loaded.status().text();
      GTEST_SKIP() << loaded.status().text();
    }
    verbs_ = *loaded;
  }
  VerbsTable verbs_;
};

TEST_F(Verbs, TheTableIsWhole) {
  // Function pointers only, so every word of it is one.
  const auto* const words = reinterpret_cast<void* const*>(&verbs_);
  for (std::size_t each = 0; each < sizeof verbs_ / sizeof *words; ++each)
    EXPECT_NE(words[each], nullptr) << "entry " << each;
  const auto& again = load_verbs();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(std::memcmp(&*again, &verbs_, sizeof verbs_), 0);
}

TEST_F(Verbs, APortIsAskedOfTheProviderWithTheWholeStruct) {
  static std::size_t asked = 0;
  verbs_context context{};
  context.sz = sizeof context;
  context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  context.query_port = [](ibv_context*, std::uint8_t port, ibv_port_attr* attributes,
                          std::size_t bytes) {
    asked = bytes;
    attributes->lid = port;
    attributes->flags = 3;  // behind what the exported function fills in
    return 0;
  };
  ibv_port_attr attributes{};
  EXPECT_EQ(verbs_.query_port(&context.context, 2, &attributes), 0);
  EXPECT_EQ(asked, sizeof attributes);
  EXPECT_EQ(attributes.lid, 2);
  EXPECT_EQ(attributes.flags, 3);
}

TEST_F(Verbs, TheFastPathIsTheProviders) {
  ibv_context context{};
  context.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 11; };
  context.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 12; };
  context.ops.poll_cq = [](ibv_cq*, int entries, ibv_wc*) { return entries; };
  context.ops.req_notify_cq = [](ibv_cq*, int solicited) { return 14 + solicited; };
  ibv_qp pair{};
  ibv_cq queue{};
  pair.context = queue.context = &context;
  EXPECT_EQ(verbs_.post_send(&pair, nullptr, nullptr), 11);
  EXPECT_EQ(verbs_.post_recv(&pair, nullptr, nullptr), 12);
  EXPECT_EQ(verbs_.poll_cq(&queue, 13, nullptr), 13);
  EXPECT_EQ(verbs_.req_notify_cq(&queue, 1), 15);
}

ibv_mr g_by_plain{}, g_by_newer{};
int g_access = -1;

TEST(RegisterBy, OptionalFlagsGoToTheNewerFunctionAndNeverToTheOlderOne) {
  const auto plain = [](ibv_pd*, void*, std::size_t, int access) {
    g_access = access;
    return &g_by_plain;
  };
  const auto newer = [](ibv_pd*, void* address, std::size_t, std::uint64_t at, unsigned access) {
    EXPECT_EQ(at, reinterpret_cast<std::uintptr_t>(address)) << "keys are for the same addresses";
    g_access = static_cast<int>(access);
    return &g_by_newer;
  };
  char memory = 0;
  constexpr int kWrite = IBV_ACCESS_LOCAL_WRITE, kRelaxed = kWrite | IBV_ACCESS_RELAXED_ORDERING;
  EXPECT_EQ(register_by(plain, newer, nullptr, &memory, 1, kRelaxed), &g_by_newer);
  EXPECT_EQ(g_access, kRelaxed);
  EXPECT_EQ(register_by(plain, newer, nullptr, &memory, 1, kWrite), &g_by_plain);
  EXPECT_EQ(register_by(plain, nullptr, nullptr, &memory, 1, kRelaxed), &g_by_plain);
  EXPECT_EQ(g_access, kWrite) << "kernels of then refuse what they do not know";
}

/// On a machine with devices: each port and address that the kernel's tree has is there.
TEST_F(Verbs, DevicesAreThoseOfTheKernelsTree) {
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(verbs_.get_device_list(&count),
                                                                  verbs_.free_device_list);
  const auto ports = rdma_ports();
  EXPECT_TRUE(list != nullptr || ports.empty()) << "the kernel has devices, the library none";
  if (ports.empty() || count == 0) GTEST_SKIP() << "no RDMA device that this process may use";
  for (int each = 0; each < count; ++each) {
    ibv_device* const device = list.get()[each];
    ibv_context* const context = verbs_.open_device(device);
    ASSERT_NE(context, nullptr) << verbs_.get_device_name(device);
    ibv_pd* const domain = verbs_.alloc_pd(context);
    ASSERT_NE(domain, nullptr);
    std::array<char, 4096> memory{};
    ibv_mr* const region = verbs_.reg_mr(
        domain, memory.data(), memory.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    ASSERT_NE(region, nullptr) << "flags that are optional are no failure";
    EXPECT_EQ(region->addr, memory.data());
    EXPECT_EQ(verbs_.dereg_mr(region), 0);
    EXPECT_EQ(verbs_.dealloc_pd(domain), 0);
    int seen = 0;
    for (const RdmaPort& port : ports) {
      if (port.device != verbs_.get_device_name(device)) continue;
      ++seen;
      ibv_port_attr attributes{};
      ASSERT_EQ(verbs_.query_port(context, port.number, &attributes), 0) << port.name();
      EXPECT_EQ(attributes.state == IBV_PORT_ACTIVE, port.active);
      EXPECT_EQ(attributes.link_layer == IBV_LINK_LAYER_ETHERNET, port.ethernet);
      EXPECT_EQ(attributes.lid, port.lid);
      for (const RdmaGid& gid : port.gids) {
        ibv_gid there{};
        ASSERT_EQ(verbs_.query_gid(context, port.number, gid.index, &there), 0);
        EXPECT_EQ(std::memcmp(there.raw, gid.bytes.data(), gid.bytes.size()), 0) << gid.text();
      }
    }
    EXPECT_GT(seen, 0) << verbs_.get_device_name(device);
    EXPECT_EQ(verbs_.close_device(context), 0);
  }
}

}  // namespace
}  // namespace coll
