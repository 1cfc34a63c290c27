// SPDX-License-Identifier: Apache-2.0
// AdamW's kernel: against f64, on shards, and on every instruction set.
#include <gtest/gtest.h>

#include "../offload/optimizer_workout.hpp"

namespace training {
namespace baseline {
Table make_table();
}
#if defined(__x86_64__)
namespace avx2 {
Table make_table();
}
namespace avx512 {
Table make_table();
}
#endif
}  // namespace training

namespace training::test {
namespace adam_test {

constexpr std::size_t kCount = 1003;

std::vector<float> normals(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Arrays {
  std::vector<float> w, m, v;
  bool operator==(const Arrays&) const = default;
};

/// 100 steps, the kernel called on parts of this size.
Arrays train(const Table& table, std::size_t part) {
  std::mt19937_64 random(coll::test::test_seed());
  Arrays arrays{normals(kCount, random), std::vector<float>(kCount), std::vector<float>(kCount)};
  for (int t = 1; t <= 100; ++t) {
    const std::vector<float> gradients = normals(kCount, random);
    for (std::size_t at = 0; at < kCount; at += part)
      table.adam(adam_step(t), std::min(part, kCount - at), gradients.data() + at,
                 arrays.w.data() + at, arrays.m.data() + at, arrays.v.data() + at);
  }
  return arrays;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TEST(Adam, IsNearArithmeticOf64Bits) {
  std::mt19937_64 random(coll::test::test_seed());
  const std::vector<float> first = normals(kCount, random);
  std::vector<double> w(first.begin(), first.end()), m(kCount), v(kCount);
  for (int t = 1; t <= 100; ++t) {
    const std::vector<float> gradients = normals(kCount, random);
    const AdamStep step = adam_step(t);
    const double b1 = step.beta1, b2 = step.beta2, rate = 0.01, decay = 0.1;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = gradients[i] * 0.5;
      m[i] = b1 * m[i] + (1 - b1) * g;
      v[i] = b2 * v[i] + (1 - b2) * g * g;
      const double mean = m[i] / (1 - std::pow(b1, t)), square = v[i] / (1 - std::pow(b2, t));
      w[i] -= rate * decay * w[i] + rate * mean / (std::sqrt(square) + 1e-8);
    }
  }
  const Arrays found = train(table(), kCount);
  std::vector<double> error(kCount), moved(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    error[i] = found.w[i] - w[i];
    moved[i] = w[i] - first[i];
  }
  EXPECT_GT(norm(moved), 0.1 * norm(w)) << "the steps change weights";
  EXPECT_LT(norm(error), 1e-6 * norm(w));
}

TEST(Adam, PartsHaveTheBitsOfTheWhole) {
  const Arrays whole = train(table(), kCount);
  for (const std::size_t part : {1U, 16U, 100U}) EXPECT_EQ(train(table(), part), whole) << part;
}

TEST(Adam, InstructionSetsGiveTheSameBits) {
  const Arrays expected = train(baseline::make_table(), kCount);
  EXPECT_EQ(train(table(), kCount), expected);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_EQ(train(avx2::make_table(), kCount), expected);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    EXPECT_EQ(train(avx512::make_table(), kCount), expected);
  }
#endif
}

TEST(Adam, AShardHasTheBitsOfTheWhole) {
  constexpr std::size_t kRanks = 3;
  Arena arena;
  const FlatLayout layout = FlatLayout::by_unit(Workout::kSizes, 16 * kRanks);
  const std::vector<std::vector<bool>> decays = {{true, false, true}, {false, true}, {true}};
  std::mt19937_64 random(coll::test::test_seed());
  for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    const std::size_t size = layout.buckets()[bucket].size;
    const std::vector<float> gradients = normals(size, random), first = normals(size, random);
    const auto update = [&](Shard shard, std::vector<float>& weights) {
      const Owned owned{&layout, shard, Format::f32, Format::f32, decays};
      MemoryOptimizer optimizer(owned, arena);
      const std::size_t begin = owned.range(bucket).begin;
      optimizer.update(bucket, {adam_step(1)}, gradients.data() + begin, weights.data() + begin);
    };
    std::vector<float> whole = first, shards = first;
    update({0, 1}, whole);
    EXPECT_NE(whole, first);
    for (std::size_t rank = 0; rank < kRanks; ++rank) update({rank, kRanks}, shards);
    EXPECT_EQ(shards, whole) << bucket;
  }
}

}  // namespace adam_test
}  // namespace training::test
