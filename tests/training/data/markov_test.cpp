// SPDX-License-Identifier: Apache-2.0
// The generated source: its distribution, and the entropy that it claims.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/markov_chain.hpp"
#include "micro_batches.hpp"
#include "test_seed.hpp"

namespace training {
namespace markov_test {

TEST(MarkovChain, HasRowsOfProbabilitiesAndAStationaryDistribution) {
  for (const std::size_t states : {2U, 3U, 16U, 256U}) {
    const MarkovChain chain(coll::test::test_seed(), states);
    std::vector<double> after(states);
    for (std::size_t i = 0; i < states; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < states; ++j) {
        EXPECT_GT(chain.probability(i, j), 0);
        sum += chain.probability(i, j);
        after[j] += chain.stationary()[i] * chain.probability(i, j);
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    }
    EXPECT_NEAR(std::accumulate(after.begin(), after.end(), 0.0), 1, 1e-12);
    for (std::size_t i = 0; i < states; ++i)
      EXPECT_NEAR(after[i], chain.stationary()[i], 1e-14) << i << " of " << states;
    EXPECT_GT(chain.entropy(), 0);
    EXPECT_LT(chain.entropy(), std::log(static_cast<double>(states)));
  }
}

/// The entropy of two neighbours is that of the first and what the second adds.
TEST(MarkovChain, ItsEntropyIsWhatANeighbourAdds) {
  const MarkovChain chain(coll::test::test_seed(), 16);
  double one = 0, two = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    one -= chain.stationary()[i] * std::log(chain.stationary()[i]);
    for (std::size_t j = 0; j < 16; ++j) {
      const double both = chain.stationary()[i] * chain.probability(i, j);
      two -= both * std::log(both);
    }
  }
  EXPECT_NEAR(chain.entropy(), two - one, 1e-12);
  EXPECT_LT(chain.entropy(), one) << "the state before tells something";
}

TEST(MarkovChain, DrawsEachStateWithItsProbability) {
  const MarkovChain chain(coll::test::test_seed(), 5);
  constexpr std::size_t kDraws = 1000;  // at even distances: a state's number is exact but for one
  const auto bits = [](std::size_t i) {
    return static_cast<std::uint32_t>((std::uint64_t{i} << 32U) / kDraws);
  };
  std::vector<double> first(5), next(5);
  for (std::size_t i = 0; i < kDraws; ++i) {
    ++first[chain.first(bits(i), 0)];
    ++next[chain.next(3, bits(i), 0)];
  }
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(first[i], kDraws * chain.stationary()[i], 1.01);
    EXPECT_NEAR(next[i], kDraws * chain.probability(3, i), 1.01);
  }
  EXPECT_EQ(chain.next(0, ~0U, ~0U), 4U);
  EXPECT_EQ(chain.first(~0U, ~0U), 4U);
}

/// Sequences are independent, so the mean of their losses under the true matrix is normal around
/// the entropy; six deviations are passed once in 5e8 runs.
TEST(MarkovSource, ItsTextHasTheEntropyThatItStates) {
  constexpr std::size_t kTokens = 32, kBatches = 300;
  const Draw draw{.seed = coll::test::test_seed(), .sequences = 64, .tokens = kTokens};
  const auto source = open_source("markov:12", draw);
  const MarkovChain chain(draw.seed, 12);
  ASSERT_EQ(source->entropy(), chain.entropy());
  for (const bool validates : {false, true}) {
    double sum = 0, squares = 0, sequences = 0;
    for (std::uint64_t number = 0; number < (validates ? source->validations() : kBatches);
         ++number) {
      const MicroBatch batch =
          validates ? validation_batch(*source, number) : training_batch(*source, number);
      for (std::size_t s = 0; s < draw.sequences; ++s, ++sequences) {
        double loss = 0;
        for (std::size_t t = 0; t < kTokens; ++t) {
          const std::size_t at = s * kTokens + t;
          EXPECT_TRUE(t == 0 || batch.inputs[at] == batch.targets[at - 1]);
          loss -= std::log(chain.probability(static_cast<std::size_t>(batch.inputs[at]),
                                             static_cast<std::size_t>(batch.targets[at])));
        }
        sum += loss / kTokens;
        squares += loss / kTokens * loss / kTokens;
      }
    }
    const double mean = sum / sequences;
    const double deviation = std::sqrt((squares / sequences - mean * mean) / sequences);
    EXPECT_LT(deviation, 0.003 * chain.entropy()) << "the bound says something";
    EXPECT_NEAR(mean, chain.entropy(), 6 * deviation) << (validates ? "validation" : "training");
  }
}

TEST(MarkovSource, ItsSequencesBeginWithTheStationaryDistribution) {
  const Draw draw{.seed = coll::test::test_seed(), .sequences = 20000, .tokens = 1};
  const MarkovChain chain(draw.seed, 12);
  std::vector<double> seen(12);
  for (const std::int32_t state : training_batch(*open_source("markov:12", draw), 0).inputs)
    ++seen[static_cast<std::size_t>(state)];
  double chi_square = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const double mean = 20000 * chain.stationary()[i];
    chi_square += (seen[i] - mean) * (seen[i] - mean) / mean;
  }
  EXPECT_LT(chi_square, 70);  // 11 degrees of freedom: about once in 1e10 runs
}

TEST(MarkovSource, KeepsItsPromises) {
  const Draw draw{.seed = coll::test::test_seed(), .sequences = 8, .tokens = 64};
  expect_promises("markov", draw, 16);
  expect_same_sequences_in_larger_batches("markov", draw);
}

TEST(MarkovSource, ValidationIsNotTraining) {
  const auto source = open_source("markov", {.seed = 3, .sequences = 8, .tokens = 64});
  EXPECT_NE(training_batch(*source, 0), validation_batch(*source, 0));
}

}  // namespace markov_test
}  // namespace training
