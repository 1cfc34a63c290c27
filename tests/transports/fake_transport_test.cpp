// SPDX-License-Identifier: Apache-2.0
// Fake does, under every script, and its faults are what they say.
#include "transports/fake/fake_transport.hpp"

#include "transports/conformance/landing_conformance.hpp"
#include "transports/conformance/lending_conformance_kept.hpp"
#include "transports/conformance/transport_conformance.hpp"

namespace coll::test {
namespace {

Backend fake(std::string name, FakeScript script) {
  const bool lends = script.least_loan <= 4096;
  script.seed = test_seed();
  auto network = std::make_shared<FakeNetwork>(std::move(script));
  return {.name = std::move(name),
          .make = [network](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
            return make_fake_transport(network, spec);
          },
          .crosses_processes = false,
          .sees_death = true,
          .can_lend = lends,
          .lends = lends,
          .uses_descriptors = false,
          .knock = {}};
}

const Backend kLending = fake("lending", {.least_loan = 1});
const Backend kAll =
    fake("all", {.max_delay = 3, .max_refusals = 2, .vary_credits = true, .least_loan = 100});
const Backend kLanding = fake("landing", {.least_loan = 1, .least_landing = 100});

INSTANTIATE_TEST_SUITE_P(Fake, TransportConformance,
                         testing::Values(fake("prompt", {}), fake("late", {.max_delay = 7}),
                                         fake("refusing", {.max_refusals = 3}),
                                         fake("stingy", {.vary_credits = true}), kLending, kAll,
                                         kLanding),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(Fake, LendingConformance, testing::Values(kLending, kAll),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(Fake, LandingConformance, testing::Values(kLanding), name_of_backend);

FakeScript with_fault(FakeFault::Kind kind) {
  return {.faults = {{.kind = kind, .from = 0, .to = 1, .lane = 0, .message = 2}}};
}

/// Sends three messages; the failure of the receiver after `good` of them.
Status receive_until_failure(Pair& pair, int good) {
  const std::byte data[8] = {};
  std::byte got[8];
  for (std::uint64_t digest = 0; digest < 3; ++digest)
    pair.drive([&] { return pair.ends[0]->send(data, 8, digest) || !pair.ends[0]->status().ok(); });
  for (int message = 0; message < 3; ++message) {
    const auto digest = static_cast<std::uint64_t>(message);
    pair.drive(
        [&] { return pair.ends[1]->receive(got, 8, digest) || !pair.ends[1]->status().ok(); });
    EXPECT_EQ(pair.ends[1]->status().ok(), message < good);
  }
  return pair.ends[1]->status();
}

TEST(FakeFaults, ACutLosesThePeerOnBothSides) {
  Pair pair(fake("cut", with_fault(FakeFault::Kind::cut)));
  ASSERT_TRUE(pair.ready);
  EXPECT_EQ(receive_until_failure(pair, 2).code(), Code::peer_lost);
  EXPECT_EQ(pair.ends[0]->status().code(), Code::peer_lost);
  EXPECT_EQ(pair.ends[0]->status().rank(), 1);
}

TEST(FakeFaults, AWrongDigestOrLengthIsAMismatch) {
  for (const auto kind : {FakeFault::Kind::digest, FakeFault::Kind::length}) {
    Pair pair(fake("wrong", with_fault(kind)));
    ASSERT_TRUE(pair.ready);
    EXPECT_EQ(receive_until_failure(pair, 2).code(), Code::mismatch);
    EXPECT_TRUE(pair.ends[0]->status().ok());
  }
}

TEST(FakeFaults, ADelayedMessageComesAfterProgressOnly) {
  int late = 0;
  Pair pair(fake("late", {.max_delay = 5}));
  ASSERT_TRUE(pair.ready);
  for (std::uint64_t digest = 0; digest < 50; ++digest) {
    ASSERT_TRUE(pair.ends[0]->send(nullptr, 0, digest));
    if (pair.ends[1]->peek(0, digest) == nullptr) ++late;
    ASSERT_TRUE(pair.drive([&] { return pair.ends[1]->receive(nullptr, 0, digest); }));
  }
  EXPECT_GT(late, 10);
}

}  // namespace
}  // namespace coll::test
