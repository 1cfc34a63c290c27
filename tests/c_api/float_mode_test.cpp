// SPDX-License-Identifier: Apache-2.0
// Callers whose threads round otherwise, flush denormals or trap, and get the bits that all ranks
// get.
#include "sys/float_mode.hpp"

#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test_seed.hpp"

namespace {

using Bits = std::vector<std::uint32_t>;

/// As -ffast-math and a careless fesetround leave a thread.
void compute_oddly() {
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // denormals are zeros, and results are flushed to zero
#elif defined(__aarch64__)
  std::uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  asm volatile("msr fpcr, %0" ::"r"(mode | std::uint64_t{1} << 24));
#endif
}

/// What tells one mode from another: volatile, so that it is computed here and now.
bool rounds_up() {
  volatile float one = 1, little = 1e-10F;
  volatile float sum = one + little;
  return sum > one;
}

#if defined(__x86_64__) || defined(__aarch64__)
bool keeps_denormals() {
  volatile float least = 1e-40F, one = 1;
  volatile float same = least * one;
  return std::memcmp(const_cast<float*>(&same), "\0\0\0\0", 4) != 0;
}
#endif

Bits random_floats(std::uint64_t seed, std::size_t count, bool tiny) {
  std::mt19937_64 random(seed);
  Bits bits(count);
  // Positive and negative, of 40 magnitudes, or denormals only.
  for (std::uint32_t& one : bits) {
    const std::uint64_t drawn = random();
    const auto exponent = static_cast<std::uint32_t>(107 + (drawn >> 32) % 40);
    one = (static_cast<std::uint32_t>(drawn) & 0x807fffff) | (tiny ? 0 : exponent << 23);
  }
  return bits;
}

struct Sample {
  const char* algorithm;
  std::size_t count;
  coll_dtype_t type;
  coll_op_t op;
  bool stream;
};

/// One rank's part: a result for each kind of input.
void reduce(const Sample& sample, const coll_unique_id_t& id, int size, int rank,
            std::uint64_t seed, Bits& result) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.deadline_s = config.connect_s = 60;
  config.algorithm = sample.algorithm;
  coll_comm_t comm = nullptr;
  ASSERT_EQ(coll_comm_init_rank(&comm, size, &id, rank, &config), COLL_SUCCESS)
      << coll_last_error();
  coll_stream_t stream = nullptr;
  if (sample.stream) {
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS) << coll_last_error();
  }
  for (const bool tiny : {false, true}) {
    const Bits input = random_floats(seed + static_cast<std::uint64_t>(rank), sample.count, tiny);
    Bits output(sample.count);
    const std::size_t elements =
        sample.count * sizeof(std::uint32_t) / coll_dtype_size(sample.type);
    ASSERT_EQ(coll_all_reduce(input.data(), output.data(), elements, sample.type, sample.op, comm,
                              stream),
              COLL_SUCCESS)
        << coll_last_error();
    if (sample.stream) {
      ASSERT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS) << coll_last_error();
    }
    result.insert(result.end(), output.begin(), output.end());
  }
  EXPECT_EQ(sample.stream ? coll_stream_destroy(stream) : COLL_SUCCESS, COLL_SUCCESS);
  EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS);
}

/// The results of all ranks, of which one is odd; -1: none.
std::vector<Bits> run_ranks(const Sample& sample, int size, int odd, std::uint64_t seed) {
  coll_unique_id_t id;
  EXPECT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  std::vector<Bits> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == odd) compute_oddly();
      reduce(sample, id, size, rank, seed, results[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(rounds_up(), rank == odd) << "the caller's mode stays the caller's";
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(FloatMode, OfOneCallerChangesNoBits) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const bool stream : {false, true}) {
    for (const Sample& sample : {Sample{nullptr, 2, COLL_FLOAT32, COLL_SUM, stream},
                                 Sample{nullptr, 100'000, COLL_FLOAT32, COLL_SUM, stream},
                                 Sample{"recursive_doubling", 3000, COLL_FLOAT32, COLL_SUM, stream},
                                 Sample{"recursive_doubling", 3000, COLL_FLOAT64, COLL_AVG, stream},
                                 Sample{"one_shot", 3000, COLL_FLOAT32, COLL_PROD, stream},
                                 Sample{"one_shot", 3000, COLL_BFLOAT16, COLL_SUM, stream},
                                 Sample{"one_shot", 3000, COLL_FLOAT16, COLL_AVG, stream},
                                 Sample{"ring", 3000, COLL_FLOAT32, COLL_SUM, stream},
                                 Sample{"ring", 3000, COLL_FLOAT8_E4M3, COLL_SUM, stream}}) {
      SCOPED_TRACE(std::string(sample.algorithm == nullptr ? "any" : sample.algorithm) + ", " +
                   std::to_string(sample.count) + " of type " + std::to_string(sample.type) +
                   (stream ? ", on a stream" : ""));
      const std::vector<Bits> usual = run_ranks(sample, 3, -1, seed);
      for (const int odd : {0, 2}) EXPECT_TRUE(run_ranks(sample, 3, odd, seed) == usual) << odd;
    }
  }
}

TEST(FloatMode, IsUsualInsideAndTheCallersAfterwards) {
  std::thread([] {
    EXPECT_FALSE(rounds_up());
    compute_oddly();
    EXPECT_TRUE(rounds_up());
    {
      const coll::UsualFloatMode mode;
      EXPECT_FALSE(rounds_up());
#if defined(__x86_64__) || defined(__aarch64__)
      EXPECT_TRUE(keeps_denormals());
#endif
      std::thread([] { EXPECT_FALSE(rounds_up()) << "threads inherit it"; }).join();
    }
    EXPECT_TRUE(rounds_up());
#if defined(__x86_64__) || defined(__aarch64__)
    EXPECT_FALSE(keeps_denormals());
#endif
  }).join();
}

#if defined(__x86_64__)
// Every inexact sum would end the process. Cores of ARM may have no traps.
TEST(FloatMode, TrapsAreTheCallersAlone) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&id, rank] {
      feenableexcept(FE_INEXACT | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_DIVBYZERO);
      Bits result;
      reduce({"one_shot", 1000, COLL_FLOAT32, COLL_PROD, rank == 0}, id, 2, rank, 1, result);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}
#endif

}  // namespace
