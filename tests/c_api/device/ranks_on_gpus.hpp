// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads and name their GPUs. Sums of whole numbers are exact in any order.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "c_api/device/cuda_stream_calls.hpp"

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define COLL_THREAD_SANITIZER
#endif
#endif

namespace collectives::testing {

using Values = std::vector<float>;
/// Beyond the shortest call that GPUs move, and of several slices but where each is slow.
#if defined(COLL_THREAD_SANITIZER)
inline constexpr std::size_t kCount = 100'000;
#else
inline constexpr std::size_t kCount = 300'000;
#endif

/// Libraries below hwloc have static state that they fill without a lock, so one thread looks at
/// the machine first.
inline void look_at_machine() {
  static const bool looked = [] {
    coll_unique_id_t id;
    EXPECT_COLL(coll_get_unique_id(&id));
    coll_config_t config = config_with();
    config.device = "0";
    EXPECT_COLL(coll_comm_destroy(join(id, 1, 0, config)));
    return true;
  }();
  EXPECT_TRUE(looked);
}

/// Each rank names a GPU, which is current.
inline void on_gpus(int size, const std::function<void(coll_comm_t, int, const BothStreams&)>& body,
                    const coll_config_t& with = config_with(),
                    const std::function<bool(int)>& names = {}) {
  int devices = 0;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  look_at_machine();
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const OnDevice device(rank % devices);
      const std::string name = std::to_string(rank % devices);
      coll_config_t config = with;
      if (!names || names(rank)) config.device = name.c_str();
      coll_comm_t comm = join(id, size, rank, config);
      ASSERT_NE(comm, nullptr);
      {
        const BothStreams stream;
        body(comm, rank, stream);
      }
      EXPECT_COLL(coll_comm_destroy(comm));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Of an operation of floats: an all_reduce, or a send to `peer`.
inline std::string explained(coll_comm_t comm, std::size_t count,
                             coll_operation_t operation = COLL_ALL_REDUCE, int peer = 0) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.count = count;
  call.type = COLL_FLOAT32;
  call.root = peer;
  std::vector<char> text(1 << 16);
  size_t length = 0;
  EXPECT_COLL(coll_comm_explain(comm, &call, text.data(), text.size(), &length));
  return text.data();
}

inline bool moved_by_gpus(coll_comm_t comm, std::size_t count) {
  return explained(comm, count).find("of the ranks' GPUs") != std::string::npos;
}

inline Values counting(std::size_t count, int rank) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 1001);
  return values;
}

inline Values sum_of(std::size_t count, int size) {
  Values sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const Values each = counting(count, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += each[i];
  }
  return sum;
}

}  // namespace collectives::testing
