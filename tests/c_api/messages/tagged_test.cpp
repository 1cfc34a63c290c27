// SPDX-License-Identifier: Apache-2.0
// Tagged messages: which recv takes which, on threads and over each transport.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <collectives/collectives.hpp>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "c_api/messages/tagged_calls.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

class Tagged : public ::testing::TestWithParam<const char*> {
 protected:
  static void run(int size, const std::function<void(coll_comm_t, int)>& body) {
    coll_config_t config = config_with();
    config.transports = GetParam();
    run_ranks(size, body, config);
  }
};

TEST_P(Tagged, TagsInAnyOrder) {
  const std::uint64_t seed = coll::test::test_seed();
  run(2, [seed](coll_comm_t comm, int rank) {
    std::mt19937_64 own(seed + static_cast<std::uint64_t>(rank));
    constexpr int kTags = 64;
    std::vector<int> tags(kTags);
    std::iota(tags.begin(), tags.end(), 0);
    std::ranges::shuffle(tags, own);
    std::vector<Values> data(kTags);
    std::vector<coll_work_t> works;
    for (const int tag : tags) {
      Values& message = data[static_cast<std::size_t>(tag)];
      message.assign(static_cast<std::size_t>(tag * tag * tag) % 7001, rank == 0 ? tag : -1);
      works.push_back(rank == 0 ? start_send(message, 1, tag, comm)
                                : start_recv(message, 0, tag, comm));
    }
    // A collective between the start and the end of messages.
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    std::ranges::shuffle(works, own);
    for (coll_work_t work : works) EXPECT_TRUE(ok(finish(work)));
    for (const int tag : tags) {
      const Values& message = data[static_cast<std::size_t>(tag)];
      EXPECT_EQ(message, Values(message.size(), tag));
    }
  });
}

TEST_P(Tagged, MessagesOfOneSenderDoNotOvertake) {
  run(2, [](coll_comm_t comm, int rank) {
    constexpr std::size_t kMessages = 50;
    std::vector<Values> sent;
    std::vector<coll_work_t> works;
    for (std::size_t i = 0; i < kMessages; ++i) {
      sent.emplace_back(i % 7 * 900, static_cast<std::int64_t>(i));
      if (rank == 0) works.push_back(start_send(sent[i], 1, 5, comm));
    }
    for (coll_work_t work : works) EXPECT_TRUE(ok(finish(work)));
    for (std::size_t i = 0; rank == 1 && i < kMessages; ++i) {
      Values got(6000, -1);
      coll_message_t message = COLL_MESSAGE_INIT;
      const int source = i % 2 == 0 ? 0 : COLL_ANY_SOURCE;
      const int tag = i % 3 == 0 ? 5 : COLL_ANY_TAG;
      EXPECT_TRUE(ok(recv_tagged(got, source, tag, comm, &message)));
      EXPECT_EQ(message.source, 0);
      EXPECT_EQ(message.tag, 5);
      EXPECT_EQ(message.type, COLL_INT64);
      ASSERT_EQ(message.count, sent[i].size());
      EXPECT_EQ(got[sent[i].size()], -1) << "nothing behind the message is written";
      got.resize(message.count);
      EXPECT_EQ(got, sent[i]);
    }
  });
}

TEST_P(Tagged, FromAnybody) {
  run(4, [](coll_comm_t comm, int rank) {
    constexpr int kEach = 10;
    if (rank != 2) {
      for (int i = 0; i < kEach; ++i) {
        EXPECT_TRUE(ok(send_tagged(Values(100, i), 2, rank * 100 + i, comm)));
      }
      return;
    }
    std::vector<int> next(4, 0);
    for (int i = 0; i < 3 * kEach; ++i) {
      Values got(100);
      coll_message_t message = COLL_MESSAGE_INIT;
      ASSERT_TRUE(ok(recv_tagged(got, COLL_ANY_SOURCE, COLL_ANY_TAG, comm, &message)));
      ASSERT_TRUE(message.source >= 0 && message.source < 4 && message.source != 2);
      const int number = next[static_cast<std::size_t>(message.source)]++;
      EXPECT_EQ(message.tag, message.source * 100 + number);
      EXPECT_EQ(got, Values(100, number));
    }
    EXPECT_EQ(next, (std::vector<int>{kEach, kEach, 0, kEach}));
  });
}

/// What each pair of ranks sends and receives, the same on all ranks. The recvs from one source
/// take its messages in an order that does not depend on time, wildcards of tags or not.
struct Pair {
  struct Sent {
    int tag;
    std::size_t count;
  };
  std::vector<Sent> sent;
  std::vector<int> wanted;         ///< tags, by recv
  std::vector<std::size_t> taken;  ///< by recv: which message

  /// The rules, one message after another.
  static Pair draw(std::mt19937_64& random) {
    for (;;) {
      Pair pair;
      const std::size_t messages = random() % 12;
      for (std::size_t i = 0; i < messages; ++i) {
        pair.sent.push_back({static_cast<int>(random() % 4),
                             random() % 3 == 0 ? random() % 40'000 : random() % 40});
        pair.wanted.push_back(random() % 3 == 0 ? COLL_ANY_TAG : pair.sent.back().tag);
      }
      std::ranges::shuffle(pair.wanted, random);
      pair.taken.assign(messages, messages);
      std::size_t met = 0;
      for (std::size_t i = 0; i < messages; ++i) {
        for (std::size_t recv = 0; recv < messages; ++recv) {
          const int wanted = pair.wanted[recv];
          if (pair.taken[recv] != messages) continue;
          if (wanted != COLL_ANY_TAG && wanted != pair.sent[i].tag) continue;
          pair.taken[recv] = i;
          ++met;
          break;
        }
      }
      if (met == messages) return pair;
    }
  }
};

std::int64_t content(int source, int target, std::size_t message) {
  return source * 1'000'000 + target * 1'000 + static_cast<std::int64_t>(message);
}

void random_traffic(coll_comm_t comm, int rank, int size, std::uint64_t seed) {
  std::mt19937_64 common(seed), own(seed + 1 + static_cast<std::uint64_t>(rank));
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::vector<Pair>> pairs(ranks);
  for (std::vector<Pair>& from : pairs) {
    for (std::size_t to = 0; to < ranks; ++to) from.push_back(Pair::draw(common));
  }
  struct Recv {
    int source;
    std::size_t number;
    Values data;
    coll_message_t message;
  };
  std::vector<Values> sent;
  std::vector<Recv> received;
  sent.reserve(12 * ranks);  // the operations hold on to what is in them
  received.reserve(12 * ranks);
  std::vector<coll_work_t> works;
  // Each list in its order, drawn side by side.
  std::vector<std::size_t> next_sent(ranks, 0), next_received(ranks, 0);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const auto me = static_cast<std::size_t>(rank);
      const int other = static_cast<int>(peer);
      const Pair& out = pairs[me][peer];
      const Pair& in = pairs[peer][me];
      std::size_t& i = next_sent[peer];
      std::size_t& j = next_received[peer];
      if (i < out.sent.size() && own() % 2 == 0) {
        sent.emplace_back(out.sent[i].count, content(rank, other, i));
        works.push_back(start_send(sent.back(), other, out.sent[i].tag, comm));
        ++i;
      }
      if (j < in.wanted.size() && own() % 2 == 0) {
        received.push_back({other, j, Values(40'000, -1), COLL_MESSAGE_INIT});
        Recv& recv = received.back();
        works.push_back(start_recv(recv.data, other, in.wanted[j], comm, nullptr, &recv.message));
        ++j;
      }
      any |= i < out.sent.size() || j < in.wanted.size();
    }
  }
  std::ranges::shuffle(works, own);
  for (coll_work_t work : works) ASSERT_TRUE(ok(finish(work)));
  for (Recv& recv : received) {
    const Pair& pair = pairs[static_cast<std::size_t>(recv.source)][static_cast<std::size_t>(rank)];
    const std::size_t taken = pair.taken[recv.number];
    ASSERT_EQ(recv.message.source, recv.source);
    ASSERT_EQ(recv.message.tag, pair.sent[taken].tag);
    ASSERT_EQ(recv.message.count, pair.sent[taken].count);
    recv.data.resize(recv.message.count);
    ASSERT_EQ(recv.data, Values(recv.message.count, content(recv.source, rank, taken)))
        << "recv " << recv.number << " from rank " << recv.source;
  }
}

TEST_P(Tagged, RandomTraffic) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const int size : {1, 2, 3, 5}) {
    run(size, [&](coll_comm_t comm, int rank) {
      for (std::uint64_t round = 0; round < 4 && !HasFailure(); ++round) {
        random_traffic(comm, rank, size, seed + 100 * round + static_cast<std::uint64_t>(size));
      }
    });
  }
}

TEST_P(Tagged, BothSendFirst) {
  run(2, [](coll_comm_t comm, int rank) {
    const Values in(kLong, rank);
    Values out(kLong);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(send_tagged(in, 1 - rank, 3, comm)));
    EXPECT_TRUE(ok(recv_tagged(out, 1 - rank, 3, comm)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(out, Values(kLong, 1 - rank));
  });
}

TEST_P(Tagged, OnStreamsInTheirOrder) {
  run(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = make_stream();
    Values data(1000, rank + 1), other(1000);
    constexpr int kTag = 1;
    // What is sent is what the operation before made.
    EXPECT_TRUE(ok(coll_all_reduce(data.data(), data.data(), data.size(), COLL_INT64, COLL_SUM,
                                   comm, stream)));
    if (rank == 0) {
      EXPECT_TRUE(
          ok(coll_send_tagged(data.data(), data.size(), COLL_INT64, 1, kTag, comm, stream)));
    } else {
      EXPECT_TRUE(ok(coll_recv_tagged(other.data(), other.size(), COLL_INT64, COLL_ANY_SOURCE, kTag,
                                      nullptr, comm, stream)));
      EXPECT_TRUE(
          ok(coll_all_reduce(other.data(), other.data(), 0, COLL_INT64, COLL_SUM, comm, stream)));
    }
    if (rank == 0) {
      EXPECT_TRUE(ok(coll_all_reduce(nullptr, nullptr, 0, COLL_INT64, COLL_SUM, comm, stream)));
    }
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    if (rank == 1) {
      EXPECT_EQ(other, Values(1000, 3));
    }
  });
}

/// Sends and recvs without a tag are a matter of their own.
TEST_P(Tagged, BesideMessagesWithoutATag) {
  run(2, [](coll_comm_t comm, int rank) {
    Values plain(500, 1), with_tag(500, 2);
    if (rank == 0) {
      coll_work_t work = start_send(with_tag, 1, 0, comm);
      EXPECT_TRUE(ok(send(plain, 1, comm)));
      EXPECT_TRUE(ok(finish(work)));
    } else {
      Values a(500), b(500);
      EXPECT_TRUE(ok(recv(a, 0, comm)));
      EXPECT_TRUE(ok(recv_tagged(b, 0, 0, comm)));
      EXPECT_EQ(a, plain);
      EXPECT_EQ(b, with_tag);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Tagged, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST(TaggedAlone, ToItself) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const Values first(3, 7), second(2, 8);
    coll_work_t a = start_send(first, 0, 1, comm);
    coll_work_t b = start_send(second, 0, 2, comm);
    Values got(3, -1);
    coll_message_t message = COLL_MESSAGE_INIT;
    EXPECT_TRUE(ok(recv_tagged(got, COLL_ANY_SOURCE, 2, comm, &message)));
    EXPECT_EQ(got, (Values{8, 8, -1}));
    EXPECT_EQ(message.source, 0);
    EXPECT_EQ(message.count, 2U);
    EXPECT_EQ(coll_work_test(a), COLL_IN_PROGRESS);
    EXPECT_TRUE(ok(finish(b)));
    coll_work_t later = start_recv(got, 0, COLL_ANY_TAG, comm);
    EXPECT_TRUE(ok(finish(later)));
    EXPECT_TRUE(ok(finish(a)));
    EXPECT_EQ(got, first);
    coll_stats_t stats = COLL_STATS_INIT;
    EXPECT_TRUE(ok(coll_comm_stats(comm, &stats)));
    EXPECT_EQ(stats.operations, 4U);
    EXPECT_EQ(stats.bytes_sent, 0U) << "to no other rank";
  });
}

TEST(TaggedCpp, TheCppFace) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  auto comm = Communicator::join(id, 1, 0);
  ASSERT_TRUE(comm) << coll_last_error();
  const std::vector<float> in{1, 2, 3};
  std::vector<float> out(5);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_SEND;
  call.send = in.data();
  call.count = in.size();
  call.type = COLL_FLOAT32;
  call.tagged = 1;
  call.tag = 9;
  auto work = comm->start(call);
  ASSERT_TRUE(work);
  const auto seen = comm->probe(0);
  ASSERT_TRUE(seen && seen->has_value());
  EXPECT_EQ((*seen)->count, 3U);
  const auto none = comm->probe(0, 8, 0);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  const auto message = comm->recv_tagged(std::span(out));
  ASSERT_TRUE(message) << coll_last_error();
  EXPECT_EQ(message->tag, 9);
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 0, 0}));
  const auto done = work->wait();
  EXPECT_TRUE(done && *done);
}

}  // namespace
}  // namespace collectives::testing
