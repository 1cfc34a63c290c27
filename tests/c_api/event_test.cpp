// SPDX-License-Identifier: Apache-2.0
// Events: streams that wait for each other, across communicators.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

constexpr double kShort = 0.03;  ///< seconds, for what must not happen

coll_work_t start_recv(Values& values, int peer, coll_comm_t comm) {
  coll_call_t call = asked(COLL_RECV, values.size(), COLL_INT64, peer);
  call.recv = values.data();
  return start(call, comm);
}

/// Two communicators of two ranks.
void run_pairs(const std::function<void(std::array<coll_comm_t, 2>, int)>& body) {
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    coll_comm_t other = nullptr;
    ASSERT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &other)));
    body({comm, other}, rank);
    EXPECT_TRUE(ok(coll_comm_destroy(other)));
  });
}

/// A stream of rank 0 that rank 1 holds up until it sends.
struct Held {
  Values values = Values(10);
  coll_stream_t stream = make_stream();

  explicit Held(coll_comm_t comm) { EXPECT_TRUE(ok(recv(values, 1, comm, stream))); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (stream != nullptr) destroy();
  }
  void destroy() { EXPECT_TRUE(ok(coll_stream_destroy(std::exchange(stream, nullptr)))); }
};

TEST(Event, HoldsBackAnotherStreamOnAnotherCommunicator) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int rank) {
    if (rank == 1) {
      Values echo(10);
      coll_work_t work = start_recv(echo, 0, comms[1]);
      Values sign(1);
      EXPECT_TRUE(ok(recv(sign, 0, comms[0]))) << "rank 0 has looked that nothing moves";
      EXPECT_EQ(coll_work_wait(work, kShort), COLL_IN_PROGRESS);
      EXPECT_TRUE(ok(send(Values(10, 7), 0, comms[0])));
      EXPECT_TRUE(ok(finish(work)));
      EXPECT_EQ(echo, Values(10, 7)) << "sent before it was there";
      return;
    }
    Held held(comms[0]);
    coll_stream_t stream = make_stream();
    coll_event_t event = make_event();
    ASSERT_TRUE(ok(coll_event_record(event, held.stream)));
    EXPECT_EQ(coll_event_query(event), COLL_IN_PROGRESS);
    ASSERT_TRUE(ok(coll_stream_wait_event(stream, event)));
    EXPECT_TRUE(ok(coll_event_destroy(event))) << "while a stream waits for it";
    EXPECT_TRUE(ok(send(held.values, 1, comms[1], stream)));
    EXPECT_EQ(coll_stream_query(stream), COLL_IN_PROGRESS);
    EXPECT_TRUE(ok(send(Values(1), 1, comms[0])));
    EXPECT_TRUE(ok(coll_stream_synchronize(stream)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

/// Nobody waits: what the event releases is moved nevertheless.
TEST(Event, ReleasesAStreamThatNobodyWaitsFor) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int rank) {
    if (rank == 1) {
      EXPECT_TRUE(ok(send(Values(10, 7), 0, comms[0])));
      Values echo(10);
      EXPECT_TRUE(ok(finish(start_recv(echo, 0, comms[1]))));
      EXPECT_EQ(echo, Values(10, 7));
      return;
    }
    Held held(comms[0]);
    coll_stream_t stream = make_stream();
    coll_event_t event = make_event();
    ASSERT_TRUE(ok(coll_event_record(event, held.stream)));
    ASSERT_TRUE(ok(coll_stream_wait_event(stream, event)));
    EXPECT_TRUE(ok(send(held.values, 1, comms[1], stream)));
    coll_status_t status = COLL_IN_PROGRESS;  // the test's own limit ends a hang
    while ((status = coll_stream_query(stream)) == COLL_IN_PROGRESS) std::this_thread::yield();
    EXPECT_TRUE(ok(status));
    EXPECT_TRUE(ok(coll_event_query(event)));
    EXPECT_TRUE(ok(coll_event_destroy(event)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

TEST(Event, IsWaitedForBySeveralStreamsAndTheHost) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int rank) {
    constexpr int kStreams = 5;
    if (rank == 1) {
      std::vector<Values> echoes(kStreams, Values(10));
      std::vector<coll_work_t> works;
      for (Values& echo : echoes) works.push_back(start_recv(echo, 0, comms[1]));
      EXPECT_EQ(coll_work_wait(works.front(), kShort), COLL_IN_PROGRESS);
      EXPECT_TRUE(ok(send(Values(10, 3), 0, comms[0])));
      for (coll_work_t work : works) EXPECT_TRUE(ok(finish(work)));
      EXPECT_EQ(echoes, std::vector<Values>(kStreams, Values(10, 3)));
      return;
    }
    Held held(comms[0]);
    coll_event_t event = make_event();
    ASSERT_TRUE(ok(coll_event_record(event, held.stream)));
    std::vector<coll_stream_t> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(make_stream());
      ASSERT_TRUE(ok(coll_stream_wait_event(streams.back(), event)));
      EXPECT_TRUE(ok(send(held.values, 1, comms[1], streams.back())));
    }
    std::thread host([&] {
      EXPECT_TRUE(ok(coll_event_synchronize(event)));
      EXPECT_EQ(held.values, Values(10, 3));
    });
    EXPECT_TRUE(ok(coll_event_synchronize(event)));
    EXPECT_EQ(held.values, Values(10, 3));
    held.destroy();
    host.join();
    coll_stream_t late = make_stream();
    EXPECT_TRUE(ok(coll_stream_wait_event(late, event))) << "its stream is gone";
    EXPECT_TRUE(ok(coll_stream_query(late))) << "there is nothing to wait for";
    streams.push_back(late);
    for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_event_destroy(event)));
  });
}

TEST(Event, StandsForWhatTheStreamHeldWhenItWasRecorded) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int rank) {
    if (rank == 1) {
      EXPECT_TRUE(ok(send(Values(10, 1), 0, comms[0])));
      Values sign(1);
      EXPECT_TRUE(ok(recv(sign, 0, comms[1]))) << "rank 0 is past the first event";
      EXPECT_TRUE(ok(send(Values(10, 2), 0, comms[0])));
      return;
    }
    coll_event_t first = make_event();
    coll_event_t again = make_event();
    Held held(comms[0]);
    ASSERT_TRUE(ok(coll_event_record(first, held.stream)));
    ASSERT_TRUE(ok(coll_event_record(again, held.stream)));
    coll_stream_t early = make_stream();
    ASSERT_TRUE(ok(coll_stream_wait_event(early, again)));
    Values later(10);
    EXPECT_TRUE(ok(recv(later, 1, comms[0], held.stream)));
    ASSERT_TRUE(ok(coll_event_record(again, held.stream)));
    EXPECT_TRUE(ok(coll_event_synchronize(first)));
    EXPECT_TRUE(ok(coll_stream_synchronize(early))) << "it waits for the record before";
    EXPECT_EQ(held.values, Values(10, 1));
    EXPECT_EQ(coll_event_query(again), COLL_IN_PROGRESS);
    EXPECT_TRUE(ok(send(Values(1), 1, comms[1])));
    EXPECT_TRUE(ok(coll_event_synchronize(again)));
    EXPECT_EQ(later, Values(10, 2));
    for (coll_event_t event : {first, again}) EXPECT_TRUE(ok(coll_event_destroy(event)));
    EXPECT_TRUE(ok(coll_stream_destroy(early)));
  });
}

TEST(Event, HappensWhenItsStreamFailsAndOthersGoOn) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int rank) {
    Values out(10);
    if (rank == 1) {
      Values sign(1);
      EXPECT_TRUE(ok(recv(sign, 0, comms[1])));
      EXPECT_TRUE(ok(coll_comm_abort(comms[0])));
      EXPECT_TRUE(ok(all_reduce(Values(10, 4), out, comms[1])));
      return;
    }
    coll_stream_t failing = make_stream();
    Values never(10);
    EXPECT_TRUE(ok(recv(never, 1, comms[0], failing)));
    coll_stream_t stream = make_stream();
    coll_event_t event = make_event();
    ASSERT_TRUE(ok(coll_event_record(event, failing)));
    ASSERT_TRUE(ok(coll_stream_wait_event(stream, event)));
    const Values in(10, 5);
    EXPECT_TRUE(ok(all_reduce(in, out, comms[1], stream)));
    EXPECT_TRUE(ok(send(Values(1), 1, comms[1])));
    EXPECT_TRUE(ok(coll_stream_synchronize(stream))) << "its own communicator works";
    EXPECT_EQ(out, Values(10, 9));
    EXPECT_TRUE(ok(coll_event_synchronize(event)));
    EXPECT_EQ(coll_stream_synchronize(failing), COLL_ABORTED);
    EXPECT_TRUE(ok(coll_event_destroy(event)));
    EXPECT_TRUE(ok(coll_stream_destroy(failing)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

/// Each stream's queue is full most of the time, and its oldest operation waits for the other.
TEST(Event, StreamsTakeTurnsWithFullQueues) {
  run_pairs([](std::array<coll_comm_t, 2> comms, int) {
    std::array<coll_stream_t, 2> streams{make_stream(), make_stream()};
    coll_event_t event = make_event();
    Values a(3, 1), b(3);
    constexpr std::int64_t kModulus = 3000;
    for (int i = 0; i < kModulus; ++i) {
      const auto mine = static_cast<std::size_t>(i % 2);
      ASSERT_TRUE(ok(coll_stream_wait_event(streams[mine], event)));
      Values& in = mine == 0 ? a : b;
      Values& out = mine == 0 ? b : a;
      ASSERT_TRUE(
          ok(coll_all_reduce(in.data(), out.data(), in.size(), COLL_INT64,
                             i % 64 == 0 ? COLL_SUM : COLL_MAX, comms[mine], streams[mine])));
      ASSERT_TRUE(ok(coll_event_record(event, streams[mine])));
    }
    EXPECT_TRUE(ok(coll_event_synchronize(event)));
    EXPECT_EQ(a, Values(3, std::int64_t{1} << (kModulus + 63) / 64));
    for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_event_destroy(event)));
  });
}

/// Random operations on random streams and communicators, ordered by events alone, against the same
/// operations one after another.
TEST(Event, KeepsTheOrderOfRandomOperations) {
  const std::uint64_t seed = coll::test::test_seed();
  constexpr std::size_t kStreams = 6, kCells = 12;
  constexpr int kOperations = 600;
  run_pairs([=](std::array<coll_comm_t, 2> comms, int rank) {
    std::mt19937_64 common(seed), own(seed + 1 + static_cast<std::uint64_t>(rank));
    std::vector<coll_stream_t> streams;
    for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(make_stream());
    struct Cell {
      Values values, expected;
      std::vector<coll_event_t> users;  ///< behind those who read or wrote it last
    };
    std::vector<Cell> cells(kCells);
    for (std::size_t i = 0; i < kCells; ++i) {
      cells[i].values.assign(1 + common() % 3000, static_cast<std::int64_t>(i) + 1);
      cells[i].expected = cells[i].values;
    }
    const auto forget = [](Cell& cell) {
      for (coll_event_t event : cell.users) ASSERT_TRUE(ok(coll_event_destroy(event)));
      cell.users.clear();
    };
    const auto after = [](const Cell& cell, coll_stream_t stream) {
      for (coll_event_t event : cell.users) {
        ASSERT_TRUE(ok(coll_stream_wait_event(stream, event)));
      }
    };
    for (int i = 0; i < kOperations; ++i) {
      Cell& from = cells[common() % kCells];
      Cell& into = cells[common() % kCells];
      coll_stream_t& stream = streams[common() % kStreams];
      const coll_comm_t comm = comms[common() % 2];
      const bool grouped = common() % 4 == 0;
      const std::size_t count = std::min(from.values.size(), into.values.size());
      // A reader waits for earlier readers too; that is simpler, and loses nothing here.
      after(from, stream);
      if (&into != &from) after(into, stream);
      if (grouped) {
        ASSERT_TRUE(ok(coll_group_start()));
      }
      ASSERT_TRUE(ok(coll_all_reduce(from.values.data(), into.values.data(), count, COLL_INT64,
                                     COLL_AVG, comm, stream)));
      if (grouped) {
        ASSERT_TRUE(ok(coll_barrier(comm, stream)));
        ASSERT_TRUE(ok(coll_group_end()));
      }
      std::copy_n(from.expected.begin(), count, into.expected.begin());
      for (Cell* cell : {&from, &into}) {
        forget(*cell);
        cell->users.push_back(make_event());
        ASSERT_TRUE(ok(coll_event_record(cell->users.back(), stream)));
      }
      switch (own() % 40) {
        case 0:
          ASSERT_TRUE(ok(coll_stream_synchronize(stream)));
          break;
        case 1:
          ASSERT_TRUE(ok(coll_event_synchronize(into.users.front())));
          ASSERT_TRUE(std::equal(from.expected.begin(),
                                 from.expected.begin() + static_cast<std::ptrdiff_t>(count),
                                 into.values.begin()))
              << "operation " << i;
          break;
        case 2:
          ASSERT_TRUE(ok(coll_stream_destroy(stream)));
          stream = make_stream();
          break;
        default:
          break;
      }
    }
    for (coll_stream_t stream : streams) EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    for (Cell& cell : cells) {
      EXPECT_EQ(cell.values, cell.expected);
      forget(cell);
    }
  });
}

/// One thread records while others wait, again and again.
TEST(Event, IsUsedByManyThreads) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_event_t event = make_event();
    std::atomic<bool> over{false};
    std::vector<std::thread> waiting;
    for (int i = 0; i < 3; ++i) {
      waiting.emplace_back([&] {
        coll_stream_t stream = make_stream();
        const Values in(5, 2);
        Values out(5);
        while (!over) {
          ASSERT_TRUE(ok(coll_stream_wait_event(stream, event)));
          ASSERT_TRUE(ok(all_reduce(in, out, comm, stream)));
          ASSERT_TRUE(ok(coll_event_synchronize(event)));
          ASSERT_TRUE(ok(coll_stream_synchronize(stream)));
        }
        EXPECT_TRUE(ok(coll_stream_destroy(stream)));
      });
    }
    const Values in(5, 2);
    Values out(5);
    for (int i = 0; i < 300; ++i) {
      coll_stream_t stream = make_stream();
      ASSERT_TRUE(ok(all_reduce(in, out, comm, stream)));
      ASSERT_TRUE(ok(coll_event_record(event, stream)));
      ASSERT_TRUE(ok(coll_stream_destroy(stream)));
    }
    over = true;
    for (std::thread& thread : waiting) thread.join();
    EXPECT_TRUE(ok(coll_event_query(event)));
    EXPECT_TRUE(ok(coll_event_destroy(event)));
  });
}

}  // namespace
}  // namespace collectives::testing
