// SPDX-License-Identifier: Apache-2.0
// Two network namespaces joined by a veth pair, as if two hosts.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "sys/fd.hpp"
#include "sys/net/net_address.hpp"

namespace coll::test {

/// h0 (10.79.0.1, fe80::1) and h1 (10.79.0.2, fe80::2). They are gone with this object: nothing
/// else holds them. Skips where they cannot be made.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    home_ = this_network();
    for (Fd& host : hosts_) {
      if (::unshare(CLONE_NEWNET) != 0) {
        GTEST_SKIP() << "no right to make network namespaces: " << std::strerror(errno);
      }
      host = this_network();
      if (!run("ip link set lo up")) GTEST_SKIP() << "no ip(8)";
    }
    // This thread is at host 1 now.
    const std::string other =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(hosts_[0].get());
    if (!run("ip link add h1 type veth peer name h0 netns " + other)) {
      GTEST_SKIP() << "this kernel has no veth";
    }
    for (const int host : {0, 1}) {
      at(host);
      const std::string name = "h" + std::to_string(host);
      const std::string number = std::to_string(host + 1);
      run("ip link set " + name + " addrgenmode none");
      ASSERT_TRUE(run("ip addr add 10.79.0." + number + "/24 dev " + name));
      run("ip addr add fe80::" + number + "/64 dev " + name + " nodad");
      ASSERT_TRUE(run("ip link set " + name + " up"));
    }
  }
  void TearDown() override {
    if (home_) {
      EXPECT_EQ(::setns(home_.get(), CLONE_NEWNET), 0);
    }
  }

  static bool run(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;  // NOLINT: one thread
  }
  static Fd this_network() { return Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }
  /// The calling thread is at this host from now on.
  void at(int host) const { ASSERT_EQ(::setns(hosts_[host].get(), CLONE_NEWNET), 0); }

  /// The addresses at which something listens on the calling thread's host.
  static std::set<std::string> heard_here() {
    std::set<std::string> hosts;
    for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
      std::ifstream file(table);
      std::string line;
      while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string number, local, remote, state;
        words >> number >> local >> remote >> state;
        if (state != "0A") continue;
        // Words of four bytes, each a number in the host's order.
        std::string bytes;
        for (std::size_t at = 0; at < local.find(':'); at += 8) {
          const auto word =
              static_cast<std::uint32_t>(std::stoul(local.substr(at, 8), nullptr, 16));
          bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
        }
        hosts.insert(NetAddress::from_bytes(bytes.size() == 4 ? AF_INET : AF_INET6,
                                            reinterpret_cast<const std::uint8_t*>(bytes.data()), 0)
                         .host());
      }
    }
    return hosts;
  }

 private:
  Fd home_;
  Fd hosts_[2];
};

}  // namespace coll::test
