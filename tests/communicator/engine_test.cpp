// SPDX-License-Identifier: Apache-2.0
// Several calls of one communicator in flight: on streams, beside blocking calls, from several
// threads.
#include "communicator/engine/engine.hpp"

#include <gmock/gmock.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "communicator/host_stream.hpp"
#include "rank_threads.hpp"
#include "test_seed.hpp"
#include "wrapped_transport.hpp"

namespace coll::testing {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::int64_t>;

std::unique_ptr<HostStream> make_stream() {
  Result<std::unique_ptr<HostStream>> made = HostStream::create();
  COLL_CHECK(made.ok(), "a stream is made");
  return *std::move(made);
}

Request request_of(Collective collective, Rank root, std::uint64_t count, const Values* in,
                   Values* out) {
  Request request;
  request.call = {.collective = collective, .type = DataType::int64, .root = root, .count = count};
  request.input = in != nullptr ? in->data() : nullptr;
  request.output = out != nullptr ? out->data() : nullptr;
  return request;
}

/// What rank `rank` puts into element `i` of call `number`.
std::int64_t input_at(Rank rank, std::uint64_t i, int number) {
  return static_cast<std::int64_t>(i * 31 + static_cast<std::uint64_t>(number) * 7) % 1009 *
         (rank + 1);
}

/// One call with buffers of its own and what must come out.
struct Job {
  Collective collective = Collective::all_reduce;
  Rank root = 0;
  std::uint64_t count = 0;
  int number = 0;
  Values in, out;

  Job(Collective what, Rank root_rank, std::uint64_t elements, int n, Rank rank, Rank size)
      : collective(what), root(root_rank), count(elements), number(n) {
    const auto all = static_cast<std::uint64_t>(size);
    in.resize(what == Collective::reduce_scatter || what == Collective::all_to_all ? count * all
                                                                                   : count);
    out.assign(
        what == Collective::all_gather || what == Collective::all_to_all ? count * all : count, -1);
    for (std::uint64_t i = 0; i < in.size(); ++i) in[i] = input_at(rank, i, number);
  }
  [[nodiscard]] Request request() { return request_of(collective, root, count, &in, &out); }
  void expect_right(Rank rank, Rank size) const {
    std::int64_t ranks_sum = 0;
    for (Rank r = 0; r < size; ++r) ranks_sum += r + 1;
    const auto block = static_cast<std::uint64_t>(rank) * count;
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      std::int64_t expected = 0;
      switch (collective) {
        case Collective::all_reduce:
          expected = input_at(0, i, number) * ranks_sum;
          break;
        case Collective::reduce_scatter:
          expected = input_at(0, block + i, number) * ranks_sum;
          break;
        case Collective::broadcast:
          expected = input_at(root, i, number);
          break;
        case Collective::all_gather:
          expected = input_at(static_cast<Rank>(i / count), i % count, number);
          break;
        default:  // all_to_all
          expected = input_at(static_cast<Rank>(i / count), block + i % count, number);
      }
      ASSERT_EQ(out[i], expected) << "call " << number << ", element " << i;
    }
  }
};

/// All ranks issue the same calls in the same order, each on a stream or blocking as it likes.
void random_calls(Communicator& comm, std::uint64_t seed) {
  std::mt19937_64 common(seed), own(seed + 1 + static_cast<std::uint64_t>(comm.rank()));
  std::vector<std::unique_ptr<HostStream>> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(make_stream());
  std::deque<Job> jobs;
  constexpr Collective kKinds[] = {Collective::all_reduce, Collective::reduce_scatter,
                                   Collective::broadcast, Collective::all_gather,
                                   Collective::all_to_all};
  for (int number = 0; number < 120; ++number) {
    const std::uint64_t most = std::uint64_t{1} << common() % 17;
    const Collective kind = kKinds[common() % std::size(kKinds)];
    const auto root = static_cast<Rank>(common() % static_cast<std::uint64_t>(comm.size()));
    Job& job = jobs.emplace_back(kind, root, common() % most, number, comm.rank(), comm.size());
    const std::uint64_t how = own() % 8;
    if (how == 0) {
      ASSERT_EQ(comm.run(job.request()).text(), "ok");
    } else {
      streams[how % streams.size()]->enqueue(comm, job.request());
    }
    if (own() % 16 == 0) {
      ASSERT_EQ(streams[own() % streams.size()]->synchronize().text(), "ok");
    }
  }
  for (const auto& stream : streams) ASSERT_EQ(stream->synchronize().text(), "ok");
  for (const Job& job : jobs) job.expect_right(comm.rank(), comm.size());
}

TEST(Engine, RandomCallsOnStreamsAndBesideThem) {
  std::mt19937_64 random(test::test_seed());
  for (const char* transports : {"shm", "tcp"}) {
    for (const Rank size : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::string(transports) + ", " + std::to_string(size) + " ranks");
      RanksOptions options;
      options.transports = transports;
      const std::uint64_t seed = random();
      run_ranks(size, options, [seed](Communicator& comm) { random_calls(comm, seed); });
    }
  }
}

/// Each sends more than the connection holds before it receives.
TEST(Engine, TwoRanksThatBothSendFirstGetThroughOnTwoStreams) {
  for (const char* transports : {"shm", "tcp"}) {
    RanksOptions options;
    options.transports = transports;
    run_ranks(2, options, [](Communicator& comm) {
      const Rank peer = 1 - comm.rank();
      Values out(std::size_t{1} << 20), in(out.size(), -1);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = input_at(comm.rank(), i, 1);
      const auto sends = make_stream(), receives = make_stream();
      sends->enqueue(comm, request_of(Collective::send, peer, out.size(), &out, nullptr));
      receives->enqueue(comm, request_of(Collective::recv, peer, in.size(), nullptr, &in));
      EXPECT_EQ(sends->synchronize().text(), "ok");
      EXPECT_EQ(receives->synchronize().text(), "ok");
      for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in[i], input_at(peer, i, 1));
    });
  }
}

TEST(Engine, TwoThreadsOfARankSendAndReceiveAtOnce) {
  run_ranks(2, {}, [](Communicator& comm) {
    const Rank peer = 1 - comm.rank();
    Values out(100'000, comm.rank() + 1), in(out.size());
    std::thread sender([&] {
      for (int i = 0; i < 50; ++i) {
        const Status sent = comm.run(request_of(Collective::send, peer, out.size(), &out, nullptr));
        ASSERT_EQ(sent.text(), "ok");
      }
    });
    for (int i = 0; i < 50; ++i) {
      const Status got = comm.run(request_of(Collective::recv, peer, in.size(), nullptr, &in));
      EXPECT_EQ(got.text(), "ok");
      EXPECT_EQ(in.back(), peer + 1);
    }
    sender.join();
  });
}

/// The second call reads what the first leaves, on another communicator.
TEST(Engine, AStreamKeepsItsOrderAcrossCommunicators) {
  run_ranks(3, {}, [](Communicator& one) {
    run_ranks(1, {}, [&](Communicator& other) {
      const auto stream = make_stream();
      Values in(50'000, 1), middle(in.size()), out(in.size());
      for (int round = 1; round <= 20; ++round) {
        std::ranges::fill(in, round);
        stream->enqueue(one, request_of(Collective::all_reduce, 0, in.size(), &in, &middle));
        stream->enqueue(other, request_of(Collective::all_reduce, 0, in.size(), &middle, &out));
        ASSERT_EQ(stream->synchronize().text(), "ok");
        ASSERT_EQ(out, Values(in.size(), 3 * round));
      }
    });
  });
}

/// Rank 1 leaves out a call: everything in flight ends alike, in the order of each stream.
TEST(Engine, AFailureEndsAllCallsInFlight) {
  RanksOptions options;
  options.deadline_s = 1;
  std::mutex mutex;
  std::vector<std::string> texts;
  std::atomic<bool> over{false};
  run_ranks(2, options, [&](Communicator& comm) {
    Values in(1000, 1), out(1000), more(1000), from_peer(1000);
    const auto stream = make_stream(), other = make_stream();
    const auto enqueue_all = [&] {
      stream->enqueue(comm, request_of(Collective::all_reduce, 0, 1000, &in, &out));
      stream->enqueue(comm, request_of(Collective::broadcast, 0, 1000, &in, &more));
      other->enqueue(comm, comm.rank() == 0
                               ? request_of(Collective::recv, 1, 1000, nullptr, &from_peer)
                               : request_of(Collective::send, 0, 1000, &in, nullptr));
    };
    enqueue_all();  // opens the connections
    ASSERT_EQ(stream->synchronize().text(), "ok");
    ASSERT_EQ(other->synchronize().text(), "ok");
    if (comm.rank() == 1) {
      over.wait(false);
    } else {
      enqueue_all();
      const Status failure = stream->synchronize();
      EXPECT_EQ(failure.code(), Code::deadline) << failure.text();
      EXPECT_THAT(failure.text(), HasSubstr("rank 0 is in"));
      EXPECT_THAT(failure.text(), HasSubstr("and 1 more"));
      EXPECT_EQ(other->synchronize().code(), Code::deadline);
      EXPECT_EQ(comm.run(request_of(Collective::barrier, 0, 0, nullptr, nullptr)).code(),
                Code::deadline);
      over = true;
      over.notify_all();
    }
    const auto begin = std::chrono::steady_clock::now();
    while (comm.status().ok() &&
           std::chrono::steady_clock::now() < begin + std::chrono::seconds(20)) {
      std::this_thread::yield();
    }
    const std::lock_guard lock(mutex);
    texts.emplace_back(comm.status_text());
  });
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Engine, AnAbortFromAnotherThreadEndsWhoeverWaits) {
  std::atomic<bool> over{false};
  run_ranks(2, {}, [&](Communicator& comm) {
    Values in(1000, 1), out(1000);
    const auto stream = make_stream();
    if (comm.rank() == 1) {  // sends once, which opens the connection, and no more
      EXPECT_EQ(comm.run(request_of(Collective::send, 0, 1000, &in, nullptr)).text(), "ok");
      return over.wait(false);
    }
    ASSERT_EQ(comm.run(request_of(Collective::recv, 1, 1000, nullptr, &in)).text(), "ok");
    stream->enqueue(comm, request_of(Collective::recv, 1, 1000, nullptr, &out));
    std::thread blocked([&] {
      EXPECT_EQ(comm.run(request_of(Collective::recv, 1, 1000, nullptr, &in)).code(),
                Code::aborted);
    });
    while (comm.engine().board().read().others == 0) std::this_thread::yield();
    EXPECT_EQ(comm.abort().text(), "ok");
    blocked.join();
    EXPECT_EQ(stream->synchronize().code(), Code::aborted);
    over = true;
    over.notify_all();
  });
}

/// Nobody's first call may wait for connections that only a later call of a peer opens.
TEST(Engine, ARingOfSendsAndReceivesOpensItsConnections) {
  for (const char* transports : {"shm", "tcp"}) {
    RanksOptions options;
    options.transports = transports;
    run_ranks(5, options, [](Communicator& comm) {
      const Rank next = (comm.rank() + 1) % comm.size();
      const Rank before = (comm.rank() + comm.size() - 1) % comm.size();
      Values out(1000, comm.rank()), in(1000, -1), sums(1000);
      const auto sends = make_stream(), receives = make_stream();
      sends->enqueue(comm, request_of(Collective::send, next, out.size(), &out, nullptr));
      receives->enqueue(comm, request_of(Collective::recv, before, in.size(), nullptr, &in));
      // Nor a collective for a send or receive that was issued before.
      ASSERT_EQ(comm.run(request_of(Collective::all_reduce, 0, 1000, &out, &sums)).text(), "ok");
      EXPECT_EQ(sends->synchronize().text(), "ok");
      EXPECT_EQ(receives->synchronize().text(), "ok");
      EXPECT_EQ(in, Values(1000, before));
      EXPECT_EQ(sums, Values(1000, 10));
    });
  }
}

/// The deadline is one of standing still: a call that waits for an earlier one of this rank does
/// not.
TEST(Engine, WaitingForAnEarlierCallIsNoFailure) {
  std::vector<Communicator*> patient(2);
  std::atomic<int> made{0}, over{0};
  std::thread others([&] {
    run_ranks(2, {}, [&](Communicator& comm) {
      patient[static_cast<std::size_t>(comm.rank())] = &comm;
      ++made;
      made.notify_all();
      for (int now = over; now < 2; now = over) over.wait(now);
    });
  });
  for (int now = made; now < 2; now = made) made.wait(now);
  RanksOptions options;
  options.deadline_s = 0.5;
  run_ranks(2, options, [&](Communicator& hasty) {
    Communicator& other = *patient[static_cast<std::size_t>(hasty.rank())];
    Values in(1000, 1), out(1000), again(1000);
    const auto first = make_stream(), second = make_stream();
    // Opens the connections.
    ASSERT_EQ(hasty.run(request_of(Collective::all_reduce, 0, 1000, &in, &out)).text(), "ok");
    if (hasty.rank() == 0) {
      first->enqueue(other, request_of(Collective::recv, 1, 1000, nullptr, &out));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // longer than the deadline
      first->enqueue(other, request_of(Collective::send, 0, 1000, &in, nullptr));
    }
    // Rank 0 holds the first, and the second waits for its turn behind it.
    first->enqueue(hasty, request_of(Collective::all_reduce, 0, 1000, &in, &out));
    second->enqueue(hasty, request_of(Collective::all_reduce, 0, 1000, &in, &again));
    EXPECT_EQ(second->synchronize().text(), "ok");
    EXPECT_EQ(first->synchronize().text(), "ok");
    EXPECT_EQ(out, Values(1000, 2));
    EXPECT_EQ(again, Values(1000, 2));
    ++over;
    over.notify_all();
  });
  others.join();
}

/// Shared memory that keeps in mind what connections were asked for.
class Remembering final : public WrappedTransport {
 public:
  Remembering(std::unique_ptr<Transport> inner, std::atomic<int>& crowded, std::atomic<int>& alone)
      : WrappedTransport(std::move(inner)), crowded_(crowded), alone_(alone) {}

  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer) override {
    ++(spec.ranks_per_core > 1 ? crowded_ : alone_);
    return inner_->open(spec, peer);
  }

 private:
  std::atomic<int>& crowded_;
  std::atomic<int>& alone_;
};

/// Their connections try nothing that only ranks with cores of their own gain by.
TEST(Engine, RanksThatShareACoreSaySoToTheirConnections) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) GTEST_SKIP() << "too many cores for the mask";
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one core only";
  for (const int cores : {2, 1}) {  // a process's first join measures between two
    cpu_set_t some;
    CPU_ZERO(&some);
    for (std::size_t cpu = 0; CPU_COUNT(&some) < cores; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &some);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof some, &some), 0);  // the threads of ranks inherit it
    std::atomic<int> crowded{0}, alone{0};
    RanksOptions options;
    options.choices = {
        {"shm", [&](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
           COLL_ASSIGN(std::unique_ptr<Transport> made, make_shm_transport(spec));
           return std::unique_ptr<Transport>(
               std::make_unique<Remembering>(std::move(made), crowded, alone));
         }}};
    run_ranks(2, options, [](Communicator& comm) {
      const Values in(10, 1);
      Values out(10);
      ASSERT_EQ(comm.run(request_of(Collective::all_reduce, 0, 10, &in, &out)).text(), "ok");
    });
    EXPECT_EQ(crowded > 0, cores == 1);
    EXPECT_EQ(alone > 0, cores == 2);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

/// A stream that is full waits by driving.
TEST(Engine, MoreCallsThanAStreamHolds) {
  run_ranks(2, {}, [](Communicator& comm) {
    const auto stream = make_stream();
    std::int64_t in = 1, out = 0;
    Request request;
    request.call = {
        .collective = Collective::all_reduce, .type = DataType::int64, .root = 0, .count = 1};
    request.input = &in;
    request.output = &out;
    for (int i = 0; i < 5000; ++i) stream->enqueue(comm, request);
    EXPECT_EQ(stream->synchronize().text(), "ok");
    EXPECT_EQ(out, 2);
  });
}

}  // namespace
}  // namespace coll::testing
