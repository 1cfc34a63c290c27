// SPDX-License-Identifier: Apache-2.0
// Calls on buffers in a GPU's memory give the bytes that they give on the host's, and touch no
// others.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "c_api/device/gpu_memory.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace device_calls_test {

/// Which device a rank's buffers are on: none, each its own, or on some ranks only.
using Places = std::function<int(int rank)>;
constexpr auto kOnHost = [](int) { return -1; };
constexpr auto kOnGpus = [](int rank) { return rank % 3; };
constexpr auto kMixed = [](int rank) { return rank % 2 == 0 ? rank % 3 : -1; };

/// All bytes that the ranks' buffers have in the end.
using Outcome = std::vector<std::vector<float>>;

struct Case {
  const char* name;
  /// Elements of a rank's buffers; 0: none.
  std::function<std::size_t(std::size_t count, int size)> send, recv;
  std::function<coll_status_t(float* send, float* recv, std::size_t count, coll_comm_t comm,
                              int rank, int size)>
      call;
};

std::size_t one(std::size_t count, int) {
  return count;
}
std::size_t each(std::size_t count, int size) {
  return count * static_cast<std::size_t>(size);
}

const Case kCases[] = {
    {"all_reduce", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_all_reduce(send, recv, count, COLL_FLOAT32, COLL_SUM, comm, nullptr);
     }},
    {"all_reduce in place", one, one,
     [](float*, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_all_reduce(recv, recv, count, COLL_FLOAT32, COLL_MAX, comm, nullptr);
     }},
    {"reduce", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int size) {
       return coll_reduce(send, recv, count, COLL_FLOAT32, COLL_SUM, size - 1, comm, nullptr);
     }},
    {"broadcast", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_broadcast(send, recv, count, COLL_FLOAT32, 0, comm, nullptr);
     }},
    {"all_gather", one, each,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_all_gather(send, recv, count, COLL_FLOAT32, comm, nullptr);
     }},
    {"all_gather in place", one, each,
     [](float*, float* recv, std::size_t count, coll_comm_t comm, int rank, int) {
       return coll_all_gather(recv + static_cast<std::size_t>(rank) * count, recv, count,
                              COLL_FLOAT32, comm, nullptr);
     }},
    {"reduce_scatter", each, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_reduce_scatter(send, recv, count, COLL_FLOAT32, COLL_SUM, comm, nullptr);
     }},
    {"reduce_scatter in place", each, one,
     [](float* send, float*, std::size_t count, coll_comm_t comm, int rank, int) {
       return coll_reduce_scatter(send, send + static_cast<std::size_t>(rank) * count, count,
                                  COLL_FLOAT32, COLL_SUM, comm, nullptr);
     }},
    {"all_to_all", each, each,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_all_to_all(send, recv, count, COLL_FLOAT32, comm, nullptr);
     }},
    {"gather", one, each,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_gather(send, recv, count, COLL_FLOAT32, 0, comm, nullptr);
     }},
    {"scatter", each, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       return coll_scatter(send, recv, count, COLL_FLOAT32, 0, comm, nullptr);
     }},
    {"send and recv in a group", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int rank, int size) {
       EXPECT_EQ(coll_group_start(), COLL_SUCCESS);
       EXPECT_EQ(coll_send(send, count, COLL_FLOAT32, (rank + 1) % size, comm, nullptr),
                 COLL_SUCCESS);
       EXPECT_EQ(coll_recv(recv, count, COLL_FLOAT32, (rank + size - 1) % size, comm, nullptr),
                 COLL_SUCCESS);
       return coll_group_end();
     }},
    {"all_gatherv with gaps", one,
     [](std::size_t count, int size) { return 3 * each(count, size); },
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int rank, int size) {
       std::vector<std::size_t> counts, displacements;
       for (int i = 0; i < size; ++i) {
         counts.push_back(count / static_cast<std::size_t>(i + 1));
         displacements.push_back(2 * static_cast<std::size_t>(size - 1 - i) * count + 1);
       }
       (void)rank;
       return coll_all_gatherv(send, recv, counts.data(), displacements.data(), COLL_FLOAT32, comm,
                               nullptr);
     }},
    {"all_to_allv with gaps", [](std::size_t count, int size) { return 3 * each(count, size); },
     [](std::size_t count, int size) { return 3 * each(count, size); },
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int size) {
       std::vector<std::size_t> counts(static_cast<std::size_t>(size), count / 2), displacements;
       for (int i = 0; i < size; ++i)
         displacements.push_back(3 * static_cast<std::size_t>(size - 1 - i) * count + 1);
       return coll_all_to_allv(send, counts.data(), displacements.data(), recv, counts.data(),
                               displacements.data(), COLL_FLOAT32, comm, nullptr);
     }},
    {"all_reduce on a stream", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       coll_stream_t stream = nullptr;
       EXPECT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
       for (int i = 0; i < 3; ++i)
         EXPECT_EQ(coll_all_reduce(i == 0 ? send : recv, recv, count, COLL_FLOAT32, COLL_SUM, comm,
                                   stream),
                   COLL_SUCCESS);
       const coll_status_t status = coll_stream_synchronize(stream);
       EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
       return status;
     }},
    {"all_reduce of parts, with a factor", one, one,
     [](float* send, float* recv, std::size_t count, coll_comm_t comm, int, int) {
       const std::size_t half = count / 2;
       const float factor = 0.5F;
       // The second part first: they do not lie one behind another.
       const coll_part_t parts[] = {{send + half, recv + half, count - half}, {send, recv, half}};
       coll_call_t call = sum_of_parts(parts);
       call.factor = &factor;
       coll_work_t work = nullptr;
       EXPECT_EQ(coll_start(&call, comm, nullptr, &work), COLL_SUCCESS) << coll_last_error();
       const coll_status_t status = coll_work_wait(work, -1);
       EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
       return status;
     }},
};

Outcome outcome(const Case& of, std::size_t count, int size, const Places& places, int calls = 1) {
  Outcome all(2 * static_cast<std::size_t>(size));
  run_ranks(size, [&](coll_comm_t comm, int rank) {
    Memory send(of.send(count, size) * sizeof(float), places(rank));
    Memory recv(of.recv(count, size) * sizeof(float), places(rank));
    send.fill(coll::test::test_seed() + static_cast<unsigned>(rank));
    const bool in_place = std::string(of.name).find("in place") != std::string::npos;
    if (in_place) recv.fill(coll::test::test_seed() + 100 + static_cast<unsigned>(rank));
    for (int i = 0; i < calls; ++i) {
      EXPECT_EQ(of.call(send.at<float>(), recv.at<float>(), count, comm, rank, size), COLL_SUCCESS)
          << of.name << ": " << coll_last_error();
    }
    all[2 * static_cast<std::size_t>(rank)] = send.values<float>();
    all[2 * static_cast<std::size_t>(rank) + 1] = recv.values<float>();
  });
  return all;
}

void expect_same_bits(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0)
        << what << ", rank " << i / 2 << (i % 2 == 0 ? ", send" : ", recv");
  }
}

class DeviceCalls : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, DeviceCalls, ::testing::ValuesIn(kCases), [](const auto& of) {
  std::string name;
  for (const char* at = of.param.name; *at != 0; ++at)
    name += std::isalnum(static_cast<unsigned char>(*at)) ? *at : '_';
  return name;
});

TEST_P(DeviceCalls, GiveTheBytesOfCallsOnTheHost) {
  for (const int size : {1, 2, 3}) {
    if (size == 1 && std::string(GetParam().name).starts_with("send")) continue;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{100001}}) {
      if (count != 1000 && size != 3) continue;
      const std::string what = std::to_string(size) + " ranks, " + std::to_string(count);
      const Outcome expected = outcome(GetParam(), count, size, kOnHost);
      expect_same_bits(outcome(GetParam(), count, size, kOnGpus, 1), expected, what);
      expect_same_bits(outcome(GetParam(), count, size, kMixed, 1), expected, what + ", mixed");
    }
  }
}

TEST(DeviceCalls, MemoryOfAnotherContextIsCopiedInIt) {
  const Case& all_gather = kCases[4];
  const Outcome expected = outcome(all_gather, 100, 2, kOnHost);
  Outcome got(4);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Memory send(100 * sizeof(float), rank, 2), recv(200 * sizeof(float), rank, 3);
    send.fill(coll::test::test_seed() + static_cast<unsigned>(rank));
    EXPECT_EQ(coll_all_gather(send.at<float>(), recv.at<float>(), 100, COLL_FLOAT32, comm, nullptr),
              COLL_SUCCESS)
        << coll_last_error();
    got[2 * static_cast<std::size_t>(rank)] = send.values<float>();
    got[2 * static_cast<std::size_t>(rank) + 1] = recv.values<float>();
  });
  expect_same_bits(got, expected, "two contexts");
}

}  // namespace device_calls_test
}  // namespace collectives::testing
