// SPDX-License-Identifier: Apache-2.0
// Addresses and interfaces.
#include "sys/net/net_address.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <algorithm>
#include <chrono>

#include "sys/net/net_interfaces.hpp"

namespace coll {
namespace {

using std::chrono::seconds;

NetAddress parsed(std::string_view text) {
  const auto result = NetAddress::parse(text);
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? *result : NetAddress();
}

TEST(NetAddress, WhatIsPrintedParsesToTheSame) {
  for (const char* text : {"1.2.3.4:80", "0.0.0.0:0", "255.255.255.255:65535", "[::]:1", "[::1]:80",
                           "[fd00:1:2::3]:4242", "[fe80::1%lo]:7"}) {
    EXPECT_EQ(parsed(text).text(), text);
    EXPECT_EQ(NetAddress::from_raw(parsed(text).raw().get()), parsed(text));
  }
}

TEST(NetAddress, NonsenseIsRefusedWithItsText) {
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", ":80", "1.2.3.4:65536", "1.2.3.4:-1",
                           "1.2.3.4:8x", "1.2.3:80", "1.2.3.256:80", "::1:80", "[::1]", "[::1]80",
                           "[::1:80", "[fe80::1%nosuchif]:80", "name:80", "[]:80"}) {
    const auto result = NetAddress::parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), Code::invalid_argument);
    EXPECT_NE(result.status().text().find(text), std::string::npos) << result.status().text();
  }
}

TEST(NetAddress, KnowsWhatItIs) {
  EXPECT_EQ(parsed("[::ffff:1.2.3.4]:80"), parsed("1.2.3.4:80"));
  EXPECT_TRUE(parsed("127.1.2.3:1").is_loopback());
  EXPECT_TRUE(parsed("[::1]:1").is_loopback());
  EXPECT_FALSE(parsed("[::2]:1").is_loopback());
  EXPECT_FALSE(parsed("[1::1]:1").is_loopback());
  EXPECT_TRUE(parsed("[fe80::1]:1").is_link_local());
  EXPECT_TRUE(parsed("169.254.1.1:1").is_link_local());
  EXPECT_FALSE(parsed("169.253.1.1:1").is_link_local());
  EXPECT_EQ(parsed("[fe80::1%lo]:1").scope(), if_nametoindex("lo"));
}

TEST(NetAddress, SubnetsAreComparedBitByBit) {
  const NetAddress one = parsed("10.77.128.1:1");
  EXPECT_TRUE(one.same_subnet(parsed("10.77.255.9:2"), 17));
  EXPECT_FALSE(one.same_subnet(parsed("10.77.127.9:2"), 17));
  EXPECT_TRUE(one.same_subnet(parsed("10.77.127.9:2"), 16));
  EXPECT_TRUE(one.same_subnet(one, 32));
  EXPECT_FALSE(one.same_subnet(one, 33));
  EXPECT_FALSE(one.same_subnet(parsed("[fd00::1]:1"), 0));
  EXPECT_TRUE(parsed("[fd00::1]:1").same_subnet(parsed("[fd00::ffff]:1"), 64));
  EXPECT_FALSE(parsed("[fd00::1]:1").same_subnet(parsed("[fd00:0:0:1::1]:1"), 64));
}

TEST(Resolve, NumbersNeedNoLookUp) {
  const auto past = Clock::now() - seconds(1);
  for (const char* text : {"10.0.0.1:80", "[::1]:80"}) {
    const auto found = resolve(text, past);
    ASSERT_TRUE(found.ok()) << found.status().text();
    EXPECT_EQ(*found, std::vector{parsed(text)});
  }
}

TEST(Resolve, LocalhostIsLoopback) {
  const auto found = resolve("localhost:80", Clock::now() + seconds(20));
  ASSERT_TRUE(found.ok()) << found.status().text();
  ASSERT_FALSE(found->empty());
  for (const NetAddress& address : *found) {
    EXPECT_TRUE(address.is_loopback()) << address.text();
    EXPECT_EQ(address.port(), 80);
  }
}

TEST(Resolve, GivesUpAtTheDeadline) {
  const auto found = resolve("localhost:80", Clock::now() - seconds(1));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::deadline);
  EXPECT_EQ(resolve("localhost", Clock::now() + seconds(1)).status().code(),
            Code::invalid_argument);
}

TEST(Interfaces, TheKnobChooses) {
  const auto interface_allowed = [](const std::string& name, std::string_view knob) {
    return names_allowed({&name, 1}, knob);
  };
  EXPECT_TRUE(interface_allowed("eth0", ""));
  EXPECT_TRUE(interface_allowed("eth0", "eth"));
  EXPECT_TRUE(interface_allowed("ib3", "eth0,ib"));
  EXPECT_FALSE(interface_allowed("eth1", "eth0,ib"));
  EXPECT_FALSE(interface_allowed("et", "eth"));
  EXPECT_FALSE(interface_allowed("docker0", "^docker,lo"));
  EXPECT_FALSE(interface_allowed("lo", "^docker,lo"));
  EXPECT_TRUE(interface_allowed("eth0", "^docker,lo"));
  EXPECT_TRUE(interface_allowed("eth0", ","));
  EXPECT_TRUE(interface_allowed("eth0", "^"));
  // Any of several names lets in, and any keeps out.
  const std::vector<std::string> names{"eth0", "mlx5_0", "mlx5_0:1"};
  EXPECT_TRUE(names_allowed(names, "ib,mlx5_0:1"));
  EXPECT_FALSE(names_allowed(names, "mlx5_1"));
  EXPECT_FALSE(names_allowed(names, "^mlx5"));
  EXPECT_TRUE(names_allowed(names, "^eth1,mlx5_1"));
}

TEST(Interfaces, LoopbackIsThereAndComesLast) {
  const auto list = host_addresses("");
  ASSERT_TRUE(list.ok()) << list.status().text();
  const auto loopback = std::ranges::find(*list, true, &InterfaceAddress::loopback);
  ASSERT_NE(loopback, list->end());
  EXPECT_TRUE(std::all_of(loopback, list->end(), [](auto& one) { return one.loopback; }));
  const auto four = std::ranges::find(*list, parsed("127.0.0.1:0"), &InterfaceAddress::address);
  ASSERT_NE(four, list->end());
  EXPECT_EQ(four->prefix_bits, 8U);
  EXPECT_EQ(four->index, if_nametoindex("lo"));
}

TEST(Interfaces, AKnobThatFitsNothingIsToldWhatThereIs) {
  const auto list = host_addresses("nosuchif");
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.status().code(), Code::invalid_argument);
  for (const char* part : {"nosuchif", "lo", "COLL_INTERFACE"}) {
    EXPECT_NE(list.status().text().find(part), std::string::npos) << list.status().text();
  }
}

TEST(Interfaces, TheNetworkHasAStableName) {
  EXPECT_FALSE(network_identity().empty());
  EXPECT_EQ(network_identity(), network_identity());
}

}  // namespace
}  // namespace coll
