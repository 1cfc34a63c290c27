// SPDX-License-Identifier: Apache-2.0
// One port at several addresses.
#include "sys/net/listeners.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <chrono>

#include "sys/net/socket.hpp"

namespace coll {
namespace {

NetAddress address(const std::string& text) {
  return *NetAddress::parse(text + ":0");
}
Deadline soon() {
  return Clock::now() + std::chrono::seconds(20);
}

TEST(ListenersTest, OnePortIsHeardAtTheseAddressesOnly) {
  Result<Listeners> listeners = Listeners::open({address("127.0.0.2"), address("127.0.0.3")});
  ASSERT_TRUE(listeners.ok()) << listeners.status().text();
  const std::uint16_t port = listeners->port();
  EXPECT_NE(port, 0);
  EXPECT_FALSE(listeners->beyond_loopback());
  EXPECT_EQ(listeners->text(),
            "127.0.0.2:" + std::to_string(port) + ", 127.0.0.3:" + std::to_string(port));
  EXPECT_FALSE(*listeners->accept());
  EXPECT_FALSE(*wait_for(listeners->fd(), POLLIN, Clock::now()));
  for (const char* host : {"127.0.0.3", "127.0.0.2", "127.0.0.3"}) {
    const Result<Fd> dialled = dial(address(host).with_port(port), soon());
    ASSERT_TRUE(dialled.ok()) << dialled.status().text();
    ASSERT_TRUE(*wait_for(listeners->fd(), POLLIN, soon()));
    const Result<Fd> accepted = listeners->accept();
    ASSERT_TRUE(accepted.ok() && *accepted);
    EXPECT_EQ(remote_address(accepted->get()), local_address(dialled->get()));
  }
  EXPECT_FALSE(*listeners->accept());
  const Result<Fd> other = dial(address("127.0.0.1").with_port(port), soon());
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().failure()->error, ECONNREFUSED);
}

TEST(ListenersTest, ManyWhoComeAtOneAddressKeepNobodyWaitingAtAnother) {
  Result<Listeners> listeners = Listeners::open({address("127.0.0.2"), address("127.0.0.3")});
  ASSERT_TRUE(listeners.ok()) << listeners.status().text();
  std::vector<Fd> crowd;
  const auto come = [&](const char* host) {
    Result<Fd> dialled = dial(address(host).with_port(listeners->port()), soon());
    ASSERT_TRUE(dialled.ok()) << dialled.status().text();
    crowd.push_back(*std::move(dialled));
  };
  for (int i = 0; i < 10; ++i) come("127.0.0.2");
  come("127.0.0.3");
  bool met = false;
  for (int i = 0; i < 3 && !met; ++i) {
    const Result<Fd> accepted = listeners->accept();
    ASSERT_TRUE(accepted.ok() && *accepted);
    met = local_address(accepted->get()).host() == "127.0.0.3";
  }
  EXPECT_TRUE(met);
}

TEST(ListenersTest, AnAddressThatHasGoneIsLeftOutUnlessAllHave) {
  const Result<Listeners> some = Listeners::open({address("192.0.2.1"), address("127.0.0.1")});
  ASSERT_TRUE(some.ok()) << some.status().text();
  ASSERT_EQ(some->addresses().size(), 1U);
  EXPECT_TRUE(some->addresses()[0].is_loopback());
  const Result<Listeners> none = Listeners::open({address("192.0.2.1")});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().failure()->error, EADDRNOTAVAIL);
}

TEST(ListenersTest, APortThatIsTakenAtOneAddressIsTaken) {
  const Result<Listeners> first = Listeners::open({address("127.0.0.2")});
  ASSERT_TRUE(first.ok());
  const Result<Listeners> second =
      Listeners::open({address("127.0.0.1"), address("127.0.0.2")}, first->port());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().failure()->error, EADDRINUSE);
  EXPECT_TRUE(Listeners::open({address("127.0.0.1")}, first->port()).ok());
}

TEST(ListenersTest, NoAddressMeansAll) {
  const Result<Listeners> all = Listeners::open({});
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_TRUE(all->addresses()[0].is_any());
  EXPECT_TRUE(all->beyond_loopback());
  EXPECT_EQ(all->text(), "all addresses, port " + std::to_string(all->port()));
  EXPECT_TRUE(dial(address("127.0.0.9").with_port(all->port()), soon()).ok());
}

}  // namespace
}  // namespace coll
