// SPDX-License-Identifier: Apache-2.0
// Sends and receives by copies that the processor starts: in any order, and of any memory.
#include "executor/device/exchange_executor.hpp"

#include <deque>
#include <random>

#include "collectives/built.hpp"
#include "stream_ranks.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

constexpr Rank kAll = 4;  ///< ranks

/// One end of an exchange, in memory of the device or of the host.
class End {
 public:
  End(std::size_t bytes, bool on_device) : on_host_(bytes), bytes_(bytes) {
    if (on_device) arena_ = std::make_unique<DeviceArena>(bytes + 1);
  }
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::byte& byte : on_host_) byte = static_cast<std::byte>(random());
    if (arena_) arena_->write(on_host_.data(), bytes_);
  }
  [[nodiscard]] std::byte* pointer() { return arena_ ? arena_->pointer() : on_host_.data(); }
  [[nodiscard]] const std::vector<std::byte>& content() {
    if (arena_) arena_->read(on_host_.data(), bytes_);
    return on_host_;
  }

 private:
  std::vector<std::byte> on_host_;
  std::size_t bytes_;
  std::unique_ptr<DeviceArena> arena_;
};

struct Exchange {
  End memory;
  Run run;
  Exchange(std::size_t bytes, bool on_device) : memory(bytes, on_device) {}
};

/// Ranks with an executor each, and their programs by peer and direction.
class Exchanges {
 public:
  Exchanges(std::uint32_t copies, std::uint32_t credits, std::uint32_t slice_bytes)
      : shape_{copies, 1, slice_bytes, 0, Loans::none}, network_(slice_bytes, credits) {
    for (auto& rank : ranks_) rank = std::make_unique<OfRank>();
  }
  Exchange& begin(Rank rank, Rank peer, bool sends, std::size_t bytes, std::uint64_t digest,
                  bool on_device = true) {
    OfRank& of = *ranks_[static_cast<std::size_t>(rank)];
    Exchange& made = *of.exchanges.emplace_back(std::make_unique<Exchange>(bytes, on_device));
    if (sends) made.memory.fill(digest);
    CallBinding call;
    if (sends) {
      call.input = made.memory.pointer();
    } else {
      call.output = made.memory.pointer();
    }
    call.count = bytes;
    call.digest = digest;
    made.run.bind(program(rank, peer, sends), call);
    of.progress.begin(made.run);
    return made;
  }
  void poll() {
    for (const auto& rank : ranks_) rank->progress.poll();
  }
  /// False: there is no end in sight.
  bool finish(std::chrono::seconds limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    const auto idle = [](const auto& rank) { return rank->progress.idle(); };
    while (!std::ranges::all_of(ranks_, idle)) {
      poll();
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
  Progress& progress(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]->progress; }
  ExchangeExecutor& executor(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]->executor; }
  LoopNetwork& network() { return network_; }

 private:
  struct OfRank {
    ExchangeExecutor executor{device_of_test()};
    std::map<std::pair<Rank, bool>, std::unique_ptr<Program>> programs;
    Progress progress;
    std::vector<std::unique_ptr<Exchange>> exchanges;
  };
  Program& program(Rank rank, Rank peer, bool sends) {
    OfRank& of = *ranks_[static_cast<std::size_t>(rank)];
    auto& place = of.programs[{peer, sends}];
    if (place == nullptr) {
      const CollectiveSpec spec{sends ? Collective::send : Collective::recv, kAll, peer};
      const Schedule schedule = find_algorithm("direct")->build(spec, Layout::flat(kAll), rank);
      auto bound = of.executor.bind(
          schedule, shape_,
          [&](Rank other, std::uint32_t lane) { return &network_.end(rank, other, lane); }, pool_);
      EXPECT_TRUE(bound.ok()) << bound.status().text();
      place = *std::move(bound);
    }
    return *place;
  }

  const ProgramShape shape_;
  ScratchPool pool_;
  LoopNetwork network_;
  std::array<std::unique_ptr<OfRank>, kAll> ranks_;
};

/// What a sender gave, the receiver has.
struct Pair {
  Exchange *from = nullptr, *to = nullptr;
  void expect_moved() const {
    EXPECT_TRUE(from->run.done() && to->run.done());
    EXPECT_EQ(to->memory.content(), from->memory.content());
  }
};

/// Both ends of a pair keep the order of its messages; what else comes first is each rank's own
/// affair.
TEST(ExchangeExecutor, RandomOrders) {
  const OnDevice device;
  const std::uint64_t seed = test::test_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  constexpr std::size_t kSizes[] = {0, 1, 255, 256, 257, 1000, 2048, 5000};
  struct Direction {
    Rank from, to;
    bool sends;
    std::deque<std::size_t> messages;
  };
  for (const std::uint32_t copies : {1U, 2U, 3U}) {
    for (const std::uint32_t credits : {1U, 2U, 4U}) {
      Exchanges all(copies, credits, 256);
      std::vector<std::size_t> bytes(40);
      std::deque<Pair> pairs(bytes.size());
      std::vector<Direction> directions;
      for (Rank from = 0; from < kAll; ++from)
        for (Rank to = 0; to < kAll; ++to)
          for (const bool sends : {true, false})
            if (from != to) directions.push_back({from, to, sends, {}});
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = kSizes[below(std::size(kSizes))];
        const std::size_t pair = below(directions.size() / 2);
        for (const std::size_t end : {2 * pair, 2 * pair + 1})
          directions[end].messages.push_back(i);
      }
      for (std::size_t left = 2 * bytes.size(); left > 0;) {
        auto& [from, to, sends, messages] = directions[below(directions.size())];
        if (messages.empty()) continue;
        const std::size_t message = messages.front();
        messages.pop_front();
        --left;
        Exchange& begun = all.begin(sends ? from : to, sends ? to : from, sends, bytes[message],
                                    100 + message, below(4) != 0);
        (sends ? pairs[message].from : pairs[message].to) = &begun;
        if (below(3) == 0) all.poll();
      }
      ASSERT_TRUE(all.finish()) << "no end in sight";
      for (Pair& pair : pairs) pair.expect_moved();
      all.network().expect_at_rest();
    }
  }
}

/// A send that nobody receives holds up nothing but the later ones to the same peer.
TEST(ExchangeExecutor, OneThatStandsHoldsUpNoOther) {
  const OnDevice device;
  Exchanges all(2, 2, 256);
  const Exchange& standing = all.begin(0, 1, true, 10'000, 1);
  const Exchange& behind = all.begin(0, 1, true, 10, 2);
  const Pair other{&all.begin(0, 2, true, 10'000, 3), &all.begin(2, 0, false, 10'000, 3)};
  const Pair back{&all.begin(1, 0, true, 10'000, 4), &all.begin(0, 1, false, 10'000, 4)};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!(other.to->run.done() && back.to->run.done() && other.from->run.done() &&
           back.from->run.done()) &&
         std::chrono::steady_clock::now() < deadline)
    all.poll();
  other.expect_moved();
  back.expect_moved();
  EXPECT_FALSE(standing.run.done() || behind.run.done());
  EXPECT_CUDA_OK(cuCtxSynchronize()) << "nothing waits on the device";
  const Exchange& first = all.begin(1, 0, false, 10'000, 1);
  const Exchange& second = all.begin(1, 0, false, 10, 2);
  ASSERT_TRUE(all.finish());
  EXPECT_TRUE(first.run.done() && second.run.done());
  all.network().expect_at_rest();
}

/// A port is told of as many messages as it has slots, before any of them has come.
TEST(ExchangeExecutor, PortsAreToldAhead) {
  const OnDevice device;
  Exchanges all(1, 3, 256);
  all.begin(1, 0, false, 256 * 5, 9);
  const auto& told = all.network().end(1, 0, 0).port()->received;
  ASSERT_EQ(told.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(told[i], (Announced{i, 256, 9}));
  all.begin(0, 1, true, 256 * 5, 9);
  ASSERT_TRUE(all.finish());
  EXPECT_EQ(told.size(), 5U);
  EXPECT_EQ(told[4], (Announced{1, 256, 9}));
}

/// The device has ended, the processor not: the run goes on until its messages are settled.
TEST(ExchangeExecutor, ARunEndsWhenItsPortsAreSettled) {
  const OnDevice device;
  Exchanges all(1, 2, 256);
  LoopPort& port = *all.network().end(0, 1, 0).port();
  port.settled_up_to = 0;
  const Exchange& sent = all.begin(0, 1, true, 600, 1);
  const Exchange& received = all.begin(1, 0, false, 600, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!received.run.done() && std::chrono::steady_clock::now() < deadline) all.poll();
  EXPECT_CUDA_OK(cuCtxSynchronize());
  for (int i = 0; i < 100; ++i) all.poll();
  EXPECT_TRUE(received.run.done());
  EXPECT_FALSE(sent.run.done());
  EXPECT_GT(port.looks, 10U);
  port.settled_up_to = port.messages;
  EXPECT_TRUE(all.finish());
  EXPECT_TRUE(sent.run.done());
}

/// A receive that stands keeps no send from its end, nor a send a receive.
TEST(ExchangeExecutor, TheOtherDirectionMayBeUnsettled) {
  const OnDevice device;
  for (const bool send_stands : {true, false}) {
    Exchanges all(1, 2, 256);
    LoopPort& port = *all.network().end(0, 1, 0).port();
    (send_stands ? port.settled_up_to : port.received_up_to) = 0;
    const Exchange& standing = all.begin(0, 1, send_stands, 600, 1);
    const Exchange& other = all.begin(0, 1, !send_stands, 600, 2);
    all.begin(1, 0, send_stands, 600, 2);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!other.run.done() && std::chrono::steady_clock::now() < deadline) all.poll();
    EXPECT_TRUE(other.run.done());
    EXPECT_FALSE(standing.run.done());
    port.settled_up_to = port.received_up_to = ~Mark{0};
    all.begin(1, 0, !send_stands, 600, 1);
    EXPECT_TRUE(all.finish());
  }
}

/// Peers that never come: abandoned runs end at once, in any order, and the device touches their
/// buffers no more.
TEST(ExchangeExecutor, AbandonedRunsEnd) {
  const OnDevice device;
  for (const bool in_order : {true, false}) {
    Exchanges all(2, 2, 256);
    std::deque<Exchange*> standing;
    for (std::uint64_t i = 0; i < 3; ++i) standing.push_back(&all.begin(0, 1, true, 9000, i));
    std::deque<Exchange*> receives;
    for (std::uint64_t i = 0; i < 3; ++i)
      receives.push_back(standing.emplace_back(&all.begin(0, 1, false, 9000, 10 + i)));
    for (int i = 0; i < 100; ++i) all.poll();
    if (!in_order) std::ranges::reverse(standing);
    const auto begin = std::chrono::steady_clock::now();
    for (Exchange* const each : standing) {
      EXPECT_FALSE(each->run.done());
      all.progress(0).abandon(each->run);
      EXPECT_FALSE(each->run.lost);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    EXPECT_TRUE(all.progress(0).idle());
    // What comes now finds nobody.
    std::vector<std::vector<std::byte>> before;
    for (Exchange* const each : receives) before.push_back(each->memory.content());
    all.begin(1, 0, true, 500, 10);
    for (int i = 0; i < 100; ++i) all.poll();
    EXPECT_CUDA_OK(cuCtxSynchronize());
    for (std::size_t i = 0; i < receives.size(); ++i)
      EXPECT_EQ(receives[i]->memory.content(), before[i]);
  }
}

/// Nobody waits behind a run that was abandoned.
TEST(ExchangeExecutor, WhatIsAbandonedGivesItsTurnAway) {
  const OnDevice device;
  Exchanges all(1, 2, 256);
  all.network().end(0, 1, 0);
  all.network().block(0, 1, 0, true);
  Exchange& given_up = all.begin(0, 1, true, 600, 1);
  const Pair behind{&all.begin(0, 1, true, 600, 2), &all.begin(1, 0, false, 600, 2)};
  all.progress(0).abandon(given_up.run);
  all.network().block(0, 1, 0, false);
  ASSERT_TRUE(all.finish());
  behind.expect_moved();
}

TEST(ExchangeExecutor, AConnectionThatServesNoDeviceIsRefused) {
  class Plain final : public Connection {
   public:
    Plain() : Connection(1, 256) {}
    std::byte* acquire(std::size_t) override { return nullptr; }
    void commit(std::size_t, std::uint64_t) override {}
    bool send(const std::byte*, std::size_t, std::uint64_t) override { return false; }
    [[nodiscard]] Mark mark() const override { return 0; }
    bool flushed(Mark) override { return true; }
    const std::byte* peek(std::size_t, std::uint64_t) override { return nullptr; }
    void release() override {}
    bool receive(std::byte*, std::size_t, std::uint64_t) override { return false; }
    [[nodiscard]] bool ready() const override { return true; }
  };
  const OnDevice device;
  Plain plain;
  ExchangeExecutor executor(device_of_test());
  ScratchPool pool;
  const Schedule schedule =
      find_algorithm("direct")->build({Collective::send, 2, 1}, Layout::flat(2), 0);
  const auto bound = executor.bind(
      schedule, {1, 1, 256, 0, Loans::none}, [&](Rank, std::uint32_t) { return &plain; }, pool);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.status().code(), Code::unsupported);
  EXPECT_NE(bound.status().text().find("rank 1 serves no device"), std::string::npos)
      << bound.status().text();
}

}  // namespace
}  // namespace coll::testing
