// SPDX-License-Identifier: Apache-2.0
// How ranks find a way to each other and whom they let in; by tcp, and by a dial alone.
#include "transports/dial/dial.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <optional>

#include "sys/net/socket.hpp"
#include "transport_backend.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace coll::test {
namespace {

const Backend kTcp{.name = "tcp", .make = make_tcp_transport, .knock = {}};
constexpr DialWire kWire = kTcpWire;
constexpr ConnectionSpec kToZero{.peer = 0, .lane = 0, .slot_bytes = 64, .credits = 1};
constexpr ConnectionSpec kToOne{.peer = 1, .lane = 0, .slot_bytes = 64, .credits = 1};

NetAddress address(std::string_view text) {
  return *NetAddress::parse(text);
}
DialDescriptor descriptor(std::string_view identity, const std::vector<const char*>& addresses) {
  DialDescriptor made;
  made.wire = kWire;
  made.port = 7;
  made.identity = identity;
  for (const char* one : addresses) made.addresses.push_back(address(one));
  return made;
}
InterfaceAddress has(const char* text, unsigned bits, std::uint32_t index) {
  return {"if", index, address(text), bits, address(text).is_loopback()};
}

/// The next greeting on a socket while `ranks` move on; nothing if none comes, or an end.
std::optional<DialGreeting> next_greeting(const Fd& socket, Ranks& ranks) {
  DialGreetingReader reader;
  const bool come = eventually([&] {
    ranks.poll();
    return reader.read(socket.get()) != DialGreetingReader::State::incomplete;
  });
  if (!come || reader.bytes() != sizeof(DialGreeting)) return std::nullopt;
  return reader.greeting();
}
/// What rank 1 answers to rank 0's challenge if it wants lane 0.
DialGreeting hello_to(const DialGreeting& challenge, std::uint64_t job) {
  return dial_greeting(kWire, spec_of(1, 2, job), kToZero, {}, DialGreeting::Verdict::hello,
                       DialNonce{'n'}, challenge.nonce);
}
Fd dial_rank(Ranks& ranks, std::size_t rank) {
  const auto parsed = DialDescriptor::parse(ranks.transports[rank]->descriptor(), kWire);
  auto guest = dial(parsed->addresses.back(), Clock::now() + std::chrono::seconds(20));
  EXPECT_TRUE(guest.ok()) << guest.status().text();
  return guest.ok() ? *std::move(guest) : Fd();
}
/// A stranger's listener, and rank 1 of `ranks` that takes it for rank 0 and has dialled it.
struct Impostor {
  explicit Impostor(Ranks& ranks) : listener(*listen_at(address("127.0.0.1:0"))) {
    auto zero = DialDescriptor::parse(ranks.transports[0]->descriptor(), kWire);
    zero->port = local_address(listener.get()).port();
    zero->addresses = {address("127.0.0.1:7")};
    victim = *ranks.transports[1]->open(kToZero, zero->text());
    eventually([&] {
      ranks.poll();
      caller = *accept_next(listener.get());
      return static_cast<bool>(caller);
    });
  }
  /// What the victim answers to `challenge`.
  std::optional<DialGreeting> lure(const DialGreeting& challenge, Ranks& ranks) const {
    if (!dial_send(caller.get(), challenge).ok()) return std::nullopt;
    return next_greeting(caller, ranks);
  }
  Fd listener;
  Fd caller;
  std::unique_ptr<Connection> victim;
};

TEST(DialDescriptor, OneKernelHasOneBoot) {
  const DialDescriptor here = descriptor("boot/4/17", {"10.0.0.1:7"});
  EXPECT_TRUE(of_one_kernel(here, here));
  EXPECT_TRUE(of_one_kernel(here, descriptor("boot/4/18", {"10.0.0.2:7"})));
  EXPECT_FALSE(of_one_kernel(here, descriptor("other/4/17", {"10.0.0.2:7"})));
  EXPECT_FALSE(of_one_kernel(descriptor("", {}), descriptor("", {}))) << "nothing is known of them";
}

TEST(DialDescriptor, TextComesBack) {
  const DialDescriptor made = descriptor("a/1", {"10.0.0.1:7", "[fd00::1]:7", "127.0.0.1:7"});
  const auto back = DialDescriptor::parse(made.text(), kWire);
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(back->text(), made.text());
  EXPECT_EQ(back->addresses, made.addresses);
}

TEST(DialDescriptor, WaysComeInASensibleOrder) {
  const std::vector mine = {has("10.0.0.1:0", 24, 2), has("172.17.0.1:0", 16, 3),
                            has("[fe80::1]:0", 64, 2), has("127.0.0.1:0", 8, 1)};
  const auto peer = descriptor("b", {"192.168.1.1:7", "10.0.0.2:7", "172.17.0.1:7", "[fd00::2]:7",
                                     "[fe80::2]:7", "127.0.0.1:7"});
  // Not: an address that is mine too, another host's loopback.
  EXPECT_EQ(dial_ways(mine, "a", peer),
            (std::vector{address("10.0.0.2:7"), address("192.168.1.1:7"), address("[fd00::2]:7"),
                         address("[fe80::2]:7").with_scope(2)}));
  EXPECT_EQ(dial_ways(mine, "b", peer).front(), address("127.0.0.1:7"));
}

TEST(DialDescriptor, AcceptanceIsSymmetric) {
  const std::vector<DialDescriptor> all = {descriptor("a", {"10.0.0.1:7", "127.0.0.1:7"}),
                                           descriptor("b", {"10.0.0.2:7"}),
                                           descriptor("c", {"[fd00::1]:7"}),
                                           descriptor("d", {"127.0.0.1:7"}),
                                           descriptor("d", {"[::1]:7"}),
                                           descriptor("", {"127.0.0.1:7"}),
                                           descriptor("e", {"10.0.0.1:7"})};
  for (const DialDescriptor& one : all) {
    for (const DialDescriptor& other : all) {
      EXPECT_EQ(dial_accepts(one, other).code(), dial_accepts(other, one).code())
          << one.text() << " | " << other.text();
    }
  }
  EXPECT_TRUE(dial_accepts(all[0], all[1]).ok());
  EXPECT_EQ(dial_accepts(all[0], all[2]).code(), Code::unreachable);  // no common family
  EXPECT_TRUE(dial_accepts(all[3], all[4]).ok());                     // one host
  EXPECT_EQ(dial_accepts(all[5], all[5]).code(), Code::unreachable);  // who knows
  EXPECT_EQ(dial_accepts(all[0], all[6]).code(), Code::unreachable);  // the same address twice
}

TEST(Dial, WireVersionsThatDifferAreBothNamed) {
  Ranks ranks(kTcp);
  std::string other = ranks.transports[1]->descriptor();
  other.replace(0, 5, "tcp/9");
  const Status status = ranks.transports[0]->accepts(other);
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_NE(status.text().find(std::to_string(kWire.version) + " here, 9 there"), std::string::npos)
      << status.text();

  // The same if it shows only in the handshake.
  auto waiting = ranks.open(0, kToOne);
  const Fd guest = dial_rank(ranks, 0);
  const auto challenge = next_greeting(guest, ranks);
  ASSERT_TRUE(challenge);
  EXPECT_EQ(challenge->verdict, DialGreeting::Verdict::challenge);
  DialGreeting hello = hello_to(*challenge, ranks.job);
  hello.version = 9;
  hello.proof = dial_proof(hello, kWire, spec_of(1, 2, ranks.job), challenge->nonce);
  ASSERT_TRUE(dial_send(guest.get(), hello).ok());
  const auto answer = next_greeting(guest, ranks);
  EXPECT_EQ(waiting->status().code(), Code::mismatch);
  EXPECT_NE(waiting->status().text().find(std::to_string(kWire.version) + " here, 9 on rank 1"),
            std::string::npos);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->version, kWire.version);
  EXPECT_EQ(answer->verdict, DialGreeting::Verdict::refused);
}

TEST(Dial, AStrangerWithoutTheJobIsShownTheDoor) {
  Ranks ranks(kTcp);
  auto waiting = ranks.open(0, kToOne);
  const Fd guest = dial_rank(ranks, 0);
  const auto challenge = next_greeting(guest, ranks);
  ASSERT_TRUE(challenge);
  ASSERT_TRUE(dial_send(guest.get(), hello_to(*challenge, ranks.job ^ 1)).ok());
  EXPECT_FALSE(next_greeting(guest, ranks)) << "it got an answer, not the end";
  EXPECT_TRUE(waiting->status().ok() && !waiting->ready());
}

TEST(Dial, AStrangersPortIsToldNothing) {
  Ranks ranks(kTcp);
  Impostor impostor(ranks);
  ASSERT_TRUE(impostor.caller);
  for (int i = 0; i < 1000; ++i) ranks.poll();
  std::byte first{};
  EXPECT_TRUE(recv_some(impostor.caller.get(), {&first, 1}).would_block());
}

TEST(Dial, AGreetingOverheardOpensNothing) {
  Ranks ranks(kTcp);
  auto waiting = ranks.open(0, kToOne);
  Impostor impostor(ranks);
  const DialGreeting challenge = *dial_challenge(kWire);
  const auto hello = impostor.lure(challenge, ranks);
  ASSERT_TRUE(hello);
  const std::string_view seen(reinterpret_cast<const char*>(&*hello), sizeof *hello);
  for (const std::uint64_t word : {ranks.job, ~ranks.job}) {
    EXPECT_EQ(seen.find({reinterpret_cast<const char*>(&word), sizeof word}), seen.npos)
        << "the job itself is in it";
  }
  // Said again to the rank it was meant for, it answers another challenge than that rank's.
  const Fd guest = dial_rank(ranks, 0);
  ASSERT_TRUE(next_greeting(guest, ranks));
  ASSERT_TRUE(dial_send(guest.get(), *hello).ok());
  EXPECT_FALSE(next_greeting(guest, ranks)) << "it got an answer, not the end";
  EXPECT_TRUE(waiting->status().ok() && !waiting->ready());
}

TEST(Dial, WhoAnswersWithoutTheJobIsNotBelieved) {
  Ranks ranks(kTcp);
  Impostor impostor(ranks);
  const DialGreeting challenge = *dial_challenge(kWire);
  const auto hello = impostor.lure(challenge, ranks);
  ASSERT_TRUE(hello);
  const auto welcome = dial_greeting(kWire, spec_of(0, 2, ranks.job ^ 1), kToOne, {},
                                     DialGreeting::Verdict::welcome, challenge.nonce, hello->nonce);
  ASSERT_TRUE(dial_send(impostor.caller.get(), welcome).ok());
  ASSERT_TRUE(eventually([&] {
    ranks.poll();
    return impostor.victim->ready() || !impostor.victim->status().ok();
  }));
  EXPECT_EQ(impostor.victim->status().code(), Code::unreachable);
}

TEST(Dial, HalfAGreetingKeepsNobodyOut) {
  Ranks ranks(kTcp);
  const auto zero = DialDescriptor::parse(ranks.transports[0]->descriptor(), kWire);
  const DialGreeting hello = hello_to({}, ranks.job);
  std::vector<Fd> crowd;
  for (std::size_t i = 0; i < 100; ++i) {
    auto guest = dial(zero->addresses.back(), Clock::now() + std::chrono::seconds(20));
    ASSERT_TRUE(guest.ok()) << guest.status().text();
    send_some(guest->get(), std::as_bytes(std::span(&hello, 1)).first(i % sizeof hello));
    crowd.push_back(*std::move(guest));
    ranks.poll();
  }
  auto a = ranks.open(0, kToOne);
  auto b = ranks.open(1, kToZero);
  ASSERT_TRUE(ranks.settle(*a, *b));
  EXPECT_TRUE(a->ready() && b->ready()) << a->status().text() << b->status().text();
}

TEST(Dial, SomebodyElseAtAnAddressIsPassedOver) {
  Ranks ranks(kTcp);
  // Another job's rank 0 has an address of ours: a stranger with the right manners.
  Ranks others(kTcp);
  auto a = ranks.open(0, kToOne);
  auto theirs = others.open(0, kToOne);
  const auto wrong = DialDescriptor::parse(others.transports[0]->descriptor(), kWire);
  auto b = ranks.transports[1]->open(kToZero, wrong->text());
  ASSERT_TRUE(b.ok());
  ASSERT_TRUE(eventually([&] {
    ranks.poll();
    others.poll();
    return !(*b)->status().ok();
  }));
  EXPECT_EQ((*b)->status().code(), Code::unreachable);
  EXPECT_FALSE(theirs->ready());
  EXPECT_TRUE(theirs->status().ok());
  EXPECT_TRUE(a->status().ok());
}

TEST(Dial, IPv6LoopbackAloneIsEnough) {
  if (!listen_at(address("[::1]:0")).ok()) GTEST_SKIP() << "this host has no IPv6";
  Ranks ranks(kTcp);
  auto zero = DialDescriptor::parse(ranks.transports[0]->descriptor(), kWire);
  zero->addresses = {address("[::1]:7")};
  auto a = ranks.open(0, kToOne);
  auto b = ranks.transports[1]->open(kToZero, zero->text());
  ASSERT_TRUE(b.ok()) << b.status().text();
  ASSERT_TRUE(ranks.settle(*a, **b));
  EXPECT_TRUE(a->ready() && (*b)->ready()) << (*b)->status().text();
}

TEST(Dial, AnInterfaceThatIsNotThereIsAnErrorWithAList) {
  TransportSpec spec = spec_of(0, 2, fresh_job());
  spec.interface = "nosuchif";
  const auto made = make_tcp_transport(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().text().find("lo"), std::string::npos) << made.status().text();
}

// --- offers

/// Two dials of one job, which wait for each other.
struct Dials {
  explicit Dials(DialWire wire = kWire) {
    const std::uint64_t job = fresh_job();
    for (const Rank rank : {0, 1}) dials[rank] = *Dial::open(spec_of(rank, 2, job), wire);
    for (const Rank rank : {0, 1}) {
      offers[rank].bytes[0] = std::byte{1};
      offers[rank].bytes[DialOffer::kBytes - 1] = static_cast<std::byte>(rank + 7);
      ends[rank] = *dials[rank]->begin(rank == 0 ? kToOne : kToZero, offers[rank],
                                       dials[1 - rank]->descriptor());
    }
  }
  std::unique_ptr<Dial> dials[2];
  DialOffer offers[2];
  std::unique_ptr<DialledEnd> ends[2];
};

TEST(Dial, EachEndGetsTheOffersOfTheOther) {
  Dials both;
  std::optional<Result<Dialled>> met[2];
  ASSERT_TRUE(eventually([&] {
    for (const int rank : {0, 1}) {
      both.dials[rank]->poll();
      if (!met[rank]) met[rank] = both.ends[rank]->take();
    }
    return met[0] && met[1];
  }));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(met[rank]->ok()) << met[rank]->status().text();
    EXPECT_EQ((*met[rank])->offer.bytes, both.offers[1 - rank].bytes);
    EXPECT_FALSE(both.ends[rank]->take()) << "once";
  }
  send_some((*met[0])->socket.get(), std::as_bytes(std::span("hi", 2)));
  std::array<std::byte, 2> got{};
  EXPECT_TRUE(eventually([&] { return recv_some((*met[1])->socket.get(), got).bytes == 2; }));
}

TEST(Dial, AnOfferChangedOnTheWayIsAStrangers) {
  const TransportSpec self = spec_of(0, 2, fresh_job());
  DialGreeting hello = dial_greeting(kWire, spec_of(1, 2, self.job[0]), kToZero, {},
                                     DialGreeting::Verdict::hello, DialNonce{'a'}, DialNonce{'b'});
  EXPECT_EQ(dial_stranger(hello, kWire, self, DialNonce{'b'}), "");
  hello.offer.bytes[100] = std::byte{1};
  EXPECT_NE(dial_stranger(hello, kWire, self, DialNonce{'b'}), "");
}

TEST(Dial, WhatIsSaidForOneTransportOpensNoOther) {
  const TransportSpec self = spec_of(0, 2, fresh_job());
  const DialGreeting hello =
      dial_greeting({"verbs", kWire.version}, spec_of(1, 2, self.job[0]), kToZero, {},
                    DialGreeting::Verdict::hello, DialNonce{'a'}, DialNonce{'b'});
  EXPECT_NE(dial_stranger(hello, kWire, self, DialNonce{'b'}), "");
  const Dials others({"verbs", 1});
  EXPECT_EQ(DialDescriptor::parse(others.dials[0]->descriptor(), kWire).status().code(),
            Code::mismatch);
}

}  // namespace
}  // namespace coll::test
