// SPDX-License-Identifier: Apache-2.0
// The conformance suite over tcp, and messages that come in parts.
#include "transports/tcp/tcp_transport.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "sys/net/socket.hpp"
#include "transports/conformance/transport_conformance.hpp"
#include "transports/dial/dial_descriptor.hpp"
#include "transports/tcp/tcp_connection.hpp"

namespace coll::test {
namespace {

/// To the door by the last address of the list: loopback.
Fd knock(std::string_view descriptor) {
  auto parsed = DialDescriptor::parse(descriptor, kTcpWire);
  if (!parsed.ok() || parsed->addresses.empty()) return {};
  auto socket = dial(parsed->addresses.back(), Clock::now() + std::chrono::seconds(5));
  return socket.ok() ? *std::move(socket) : Fd();
}

const Backend kTcp{.name = "tcp", .make = make_tcp_transport, .sees_death = true, .knock = knock};

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, testing::Values(kTcp), name_of_backend);

/// A message of which a part came into a slot before anybody asked for it.
class TcpParts : public testing::Test, public Pair {
 protected:
  static constexpr std::size_t kBytes = 32 << 20;  ///< more than the kernel takes
  static constexpr std::size_t kPart = 100'003;

  TcpParts() : Pair(kTcp, kBytes, 1), data_(kBytes) {
    std::mt19937_64 random(test_seed());
    for (std::byte& one : data_) one = static_cast<std::byte>(random());
  }
  void SetUp() override {
    ASSERT_TRUE(ready);
    EXPECT_FALSE(sends());
    for (int look = 0; look < 100; ++look) static_cast<TcpConnection&>(*ends[1]).look();
    EXPECT_FALSE(sends()) << "it is longer than what the kernel and this end took";
  }
  bool sends() { return ends[0]->send(data_.data(), kBytes, 7); }
  const std::byte* peek(std::size_t begin, std::byte* room) {
    return ends[1]->peek_part(begin, std::min(kPart, kBytes - begin), kBytes, 7, room);
  }

  std::vector<std::byte> data_;
};

TEST_F(TcpParts, BeginWithWhatCameBefore) {
  std::vector<std::byte> got(kBytes);
  bool sent = false;
  int roomy = 0;
  for (std::size_t begin = 0; begin < kBytes; begin += kPart) {
    std::byte* const room = begin / kPart % 3 == 0 ? nullptr : got.data() + begin;
    const std::byte* part = nullptr;
    ASSERT_TRUE(drive([&] {
      sent = sent || sends();
      static_cast<TcpConnection&>(*ends[1]).look();  // leaves the message to the caller
      return (part = peek(begin, room)) != nullptr;
    }));
    roomy += part == room ? 1 : 0;
    if (part != room) std::copy_n(part, std::min(kPart, kBytes - begin), got.data() + begin);
  }
  ends[1]->release();
  EXPECT_GT(roomy, 0);
  EXPECT_TRUE(got == data_);
  ASSERT_TRUE(drive([&] { return ends[0]->send(data_.data(), 9, 8); }));
  ASSERT_TRUE(drive([&] { return ends[1]->receive(got.data(), 9, 8); }));
}

TEST_F(TcpParts, APeerThatGoesInTheMiddleIsLost) {
  ASSERT_TRUE(drive([&] { return peek(0, nullptr) != nullptr; }));
  ends[0].reset();
  std::size_t begin = kPart;
  EXPECT_TRUE(eventually([&] {
    while (begin < kBytes && peek(begin, nullptr) != nullptr) begin += kPart;
    nudge(*ends[1]);
    return !ends[1]->status().ok();
  }));
  EXPECT_LT(begin, kBytes);
  EXPECT_EQ(ends[1]->status().code(), Code::peer_lost) << ends[1]->status().text();
}

}  // namespace
}  // namespace coll::test
