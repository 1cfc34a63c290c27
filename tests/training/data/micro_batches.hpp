// SPDX-License-Identifier: Apache-2.0
// Micro-batches of a source, and what every source promises of them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../failure_of.hpp"
#include "data/open_source.hpp"
#include "memory/failure.hpp"

namespace training {

struct MicroBatch {
  std::vector<std::int32_t> inputs, targets;
  bool operator==(const MicroBatch&) const = default;
  [[nodiscard]] std::size_t rows() const {
    return static_cast<std::size_t>(std::ranges::count_if(targets, [](auto t) { return t >= 0; }));
  }
};

/// Filled over a pattern: what a source does not write is seen.
inline MicroBatch unwritten(const Source& source) {
  return {std::vector<std::int32_t>(source.shape().inputs(), -77),
          std::vector<std::int32_t>(source.shape().targets(), -77)};
}
inline MicroBatch training_batch(const Source& source, std::uint64_t number) {
  MicroBatch batch = unwritten(source);
  source.fill(number, batch.inputs, batch.targets);
  return batch;
}
inline MicroBatch validation_batch(const Source& source, std::uint64_t number) {
  MicroBatch batch = unwritten(source);
  source.fill_validation(number, batch.inputs, batch.targets);
  return batch;
}

/// Two micro-batches have the sequences of one that is twice as large.
inline void expect_same_sequences_in_larger_batches(const std::string& description, Draw draw) {
  const auto small = open_source(description, draw);
  draw.sequences *= 2;
  const auto large = open_source(description, draw);
  for (std::uint64_t number = 0; number < 5; ++number) {
    MicroBatch both = training_batch(*small, 2 * number);
    const MicroBatch second = training_batch(*small, 2 * number + 1);
    both.inputs.insert(both.inputs.end(), second.inputs.begin(), second.inputs.end());
    both.targets.insert(both.targets.end(), second.targets.begin(), second.targets.end());
    EXPECT_EQ(both, training_batch(*large, number)) << number;
  }
}

/// A batch is a function of seed and number; its numbers are in their ranges; rows() is right.
inline void expect_promises(const std::string& description, const Draw& draw,
                            std::int32_t input_kinds) {
  const auto one = open_source(description, draw), same = open_source(description, draw);
  Draw other_draw = draw;
  ++other_draw.seed;
  const auto other = open_source(description, other_draw);
  const auto kinds = static_cast<std::int32_t>(one->shape().kinds);
  const auto check = [&](const MicroBatch& batch) {
    EXPECT_GE(std::ranges::min(batch.inputs), 0);
    EXPECT_LT(std::ranges::max(batch.inputs), input_kinds);
    EXPECT_GE(std::ranges::min(batch.targets), -1);
    EXPECT_LT(std::ranges::max(batch.targets), kinds);
  };
  const std::vector<std::uint64_t> numbers = {0, 1, 2, 7, 1000, std::uint64_t{1} << 40U};
  for (const std::uint64_t number : numbers) {
    const MicroBatch batch = training_batch(*one, number);
    check(batch);
    EXPECT_EQ(batch.rows(), one->rows(number)) << number;
    EXPECT_NE(batch, training_batch(*other, number)) << "another seed, batch " << number;
    EXPECT_NE(batch, training_batch(*one, number + 1)) << "the batch after " << number;
  }
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number)
    EXPECT_EQ(training_batch(*one, *number), training_batch(*same, *number)) << "in another order";
  ASSERT_GT(one->validations(), 0U);
  for (const std::uint64_t number : {std::uint64_t{0}, one->validations() - 1}) {
    const MicroBatch batch = validation_batch(*one, number);
    check(batch);
    EXPECT_EQ(batch, validation_batch(*same, number));
    EXPECT_GT(batch.rows(), 0U);
  }
  EXPECT_FALSE(one->describe().empty());
}

}  // namespace training
