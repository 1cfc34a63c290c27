// SPDX-License-Identifier: Apache-2.0
// Tcp between two network namespaces joined by a veth pair, as between two hosts.
#include <gtest/gtest.h>

#include <algorithm>

#include "transport_backend.hpp"
#include "transports/dial/dial_descriptor.hpp"
#include "transports/tcp/tcp_transport.hpp"
#include "two_hosts.hpp"

namespace coll::test {
namespace {

/// Sockets belong to the host that the thread is at when it makes them.
class TcpTwoHosts : public TwoHosts {
 protected:
  void start(const std::string& interface = {}) {
    const std::uint64_t job = fresh_job();
    for (auto& end : ends_) end.reset();
    for (const int host : {0, 1}) {
      at(host);
      TransportSpec spec = spec_of(host, 2, job);
      spec.interface = interface;
      auto made = make_tcp_transport(spec);
      ASSERT_TRUE(made.ok()) << made.status().text();
      transports_[host] = *std::move(made);
    }
  }
  /// Opens a connection; false if it failed (or 20 s have passed).
  bool connect(std::string (*change)(std::string) = nullptr) {
    for (const int host : {0, 1}) {
      at(host);
      std::string peer = transports_[1 - host]->descriptor();
      if (change != nullptr) peer = change(peer);
      auto opened = transports_[host]->open(
          {.peer = 1 - host, .lane = 0, .slot_bytes = 1 << 20, .credits = 1}, peer);
      EXPECT_TRUE(opened.ok()) << opened.status().text();
      if (!opened.ok()) return false;
      ends_[host] = *std::move(opened);
    }
    return eventually([&] {
             for (const int host : {0, 1}) {
               at(host);
               transports_[host]->poll();
             }
             return (ends_[0]->ready() && ends_[1]->ready()) || !ends_[1]->status().ok();
           }) &&
           ends_[0]->ready() && ends_[1]->ready();
  }
  /// Both send a whole slot before either receives, with one credit.
  void exchange() {
    std::vector<std::byte> out(1 << 20, std::byte{9});
    for (std::uint64_t round = 0; round < 3; ++round) {
      bool sent[2] = {false, false};
      ASSERT_TRUE(eventually([&] {
        for (const int host : {0, 1}) {
          sent[host] = sent[host] || ends_[host]->send(out.data(), out.size(), round);
          nudge(*ends_[host]);
        }
        return sent[0] && sent[1];
      }));
      for (const int host : {0, 1}) {
        std::vector<std::byte> in(out.size());
        ASSERT_TRUE(eventually([&] {
          nudge(*ends_[1 - host]);
          return ends_[host]->receive(in.data(), in.size(), round);
        }));
        EXPECT_EQ(in, out);
      }
    }
  }

  std::unique_ptr<Transport> transports_[2];
  std::unique_ptr<Connection> ends_[2];
};

TEST_F(TcpTwoHosts, Talk) {
  start();
  const auto zero = DialDescriptor::parse(transports_[0]->descriptor(), kTcpWire);
  const auto one = DialDescriptor::parse(transports_[1]->descriptor(), kTcpWire);
  ASSERT_TRUE(zero.ok() && one.ok());
  EXPECT_NE(zero->identity, one->identity);
  EXPECT_TRUE(transports_[0]->accepts(transports_[1]->descriptor()).ok());
  const PathCapabilities path = transports_[0]->path(transports_[1]->descriptor());
  EXPECT_EQ(path, transports_[1]->path(transports_[0]->descriptor()));
  EXPECT_EQ(path.medium, PathMedium::kernel) << "one kernel is both hosts";
  EXPECT_FALSE(path.shares_memory);
  ASSERT_TRUE(connect()) << ends_[1]->status().text();
  exchange();
}

TEST_F(TcpTwoHosts, OnlyLinkLocalIPv6IsEnough) {
  for (const int host : {0, 1}) {
    at(host);
    ASSERT_TRUE(run("ip -4 addr flush dev h" + std::to_string(host)));
    if (!run("ip -6 addr show dev h" + std::to_string(host) + " | grep -q fe80")) {
      GTEST_SKIP() << "no IPv6";
    }
  }
  start();
  ASSERT_TRUE(connect()) << ends_[1]->status().text();
  exchange();
}

TEST_F(TcpTwoHosts, AnAddressNobodyHasIsPassedOver) {
  at(1);
  ASSERT_TRUE(run("ip addr add 10.80.0.2/24 dev h1"));
  start("h");
  // First a neighbour that does not answer, then a net without a route; the right one comes last.
  ASSERT_TRUE(connect([](std::string text) {
    const auto place = text.find(" 10.79.0.1");
    return place == std::string::npos ? text : text.insert(place, " 10.80.0.77 10.99.0.1");
  })) << ends_[1]->status().text();
  exchange();
}

TEST_F(TcpTwoHosts, NoWayAtAllListsEveryAddress) {
  start("h");
  EXPECT_FALSE(connect([](std::string text) {
    const auto words = text.find(" 10.79.0.1");
    if (words != std::string::npos) text.replace(words, text.npos, " 10.99.0.1 fd99::1");
    return text;
  }));
  const Status status = ends_[1]->status();
  EXPECT_EQ(status.code(), Code::unreachable);
  EXPECT_EQ(status.rank(), 0);
  for (const char* part : {"10.99.0.1", "fd99::1", "unreachable"}) {
    EXPECT_NE(status.text().find(part), std::string::npos) << status.text();
  }
}

TEST_F(TcpTwoHosts, APortIsHeardWhereItIsPublished) {
  at(0);
  TransportSpec spec = spec_of(0, 2, fresh_job());
  const auto heard = [&] {
    auto made = make_tcp_transport(spec);
    EXPECT_TRUE(made.ok()) << made.status().text();
    const auto published = DialDescriptor::parse((*made)->descriptor(), kTcpWire);
    std::set<std::string> hosts = heard_here();
    for (const NetAddress& one : published->addresses) EXPECT_TRUE(hosts.erase(one.host()));
    EXPECT_TRUE(hosts.empty()) << *hosts.begin() << " is heard and not published";
    return published->addresses;
  };
  spec.interface = "h0";
  for (const NetAddress& one : heard()) EXPECT_FALSE(one.is_loopback()) << one.text();
  spec.interface = "lo";
  for (const NetAddress& one : heard()) EXPECT_TRUE(one.is_loopback()) << one.text();
  spec.interface = "";
  spec.one_network = true;
  for (const NetAddress& one : heard()) EXPECT_TRUE(one.is_loopback()) << one.text();
  // As in a container without it.
  ASSERT_TRUE(run("ip link set lo down"));
  EXPECT_TRUE(make_tcp_transport(spec).ok());
}

TEST_F(TcpTwoHosts, TheKnobChoosesTheInterface) {
  start("h");
  for (const auto& transport : transports_) {
    const auto descriptor = DialDescriptor::parse(transport->descriptor(), kTcpWire);
    ASSERT_TRUE(descriptor.ok());
    EXPECT_TRUE(std::ranges::none_of(descriptor->addresses, &NetAddress::is_loopback));
  }
  ASSERT_TRUE(connect()) << ends_[1]->status().text();

  start("lo");
  const Status status = transports_[0]->accepts(transports_[1]->descriptor());
  EXPECT_EQ(status.code(), Code::unreachable) << "another host's loopback";
  EXPECT_EQ(transports_[1]->accepts(transports_[0]->descriptor()).code(), Code::unreachable);
}

}  // namespace
}  // namespace coll::test
