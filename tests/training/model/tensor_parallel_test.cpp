// SPDX-License-Identifier: Apache-2.0
// A GPT that partners share computes what the whole one does, with exactly the traffic of the
// paper.
#include "parallel/tensor_parallel.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "../training_ranks.hpp"
#include "memory/failure.hpp"
#include "model/gpt.hpp"
#include "model_in_memory.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace tensor_parallel_test {

constexpr GptShape kShape{
    .vocabulary = 63, .positions = 16, .channels = 32, .blocks = 2, .heads = 4};
constexpr std::size_t kSequences = 3, kTokens = 14, kSteps = 20;

template <class Real>
using Arrays = std::vector<std::vector<Real>>;  // of the parameters

/// Says which rank this is; nobody is there to talk to.
class Alone final : public Partners<float> {
 public:
  Alone(std::size_t rank, std::size_t ranks) : rank_(rank), ranks_(ranks) {}
  std::size_t rank() const override { return rank_; }
  std::size_t ranks() const override { return ranks_; }
  void sum(std::span<float> /*values*/) override {}
  void maximum(std::span<float> /*values*/) override {}

 private:
  std::size_t rank_, ranks_;
};

/// What a run of SGD, on one batch, goes through.
template <class Real>
struct History {
  std::vector<Outcome> outcomes;
  std::vector<Arrays<Real>> gradients;
};

template <class Real>
History<Real> train(ModelInMemory<Real>& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const RandomBatch data(kSequences, kTokens, 1, kShape.vocabulary, kShape.vocabulary, random);
  History<Real> history;
  for (std::size_t step = 0; step < kSteps; ++step) {
    history.outcomes.push_back(model.forward(data.batch));
    model.backward(data.batch, Real{1} / static_cast<Real>(count_rows(data.batch)));
    history.gradients.push_back(model.gradients());
    for (std::size_t p = 0; p < model.weights().size(); ++p)
      for (std::size_t i = 0; i < model.weights()[p].size(); ++i)
        model.weights()[p][i] -= model.gradients()[p][i] / 100;
  }
  return history;
}

/// How far a rank's part is from the whole: the root of the sum of squares, and as a share of the
/// whole's.
struct Difference {
  double off = 0, all = 0;
  [[nodiscard]] double relative() const { return std::sqrt(off / all); }
  template <class Real>
  void add(const ParameterInfo& info, const std::vector<Real>& part,
           const std::vector<Real>& whole) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto expected = static_cast<double>(whole[info.whole_index(i)]);
      off += std::pow(static_cast<double>(part[i]) - expected, 2);
      all += expected * expected;
    }
  }
};

template <class Real>
void compare_with_the_whole(std::size_t ranks, double tolerance) {
  const std::uint64_t seed = coll::test::test_seed();
  ModelInMemory<Real> whole(gpt_units<Real>(kShape));
  const History<Real> expected = train(whole, seed);
  EXPECT_LT(expected.outcomes.back().loss, expected.outcomes.front().loss);
  EXPECT_GT(expected.outcomes.back().right, 0U);

  std::vector<History<Real>> histories(ranks);
  std::vector<ParameterInfo> infos;
  on_ranks(ranks, [&](collectives::Communicator communicator) {
    TensorPartners<Real> partners(communicator);
    ModelInMemory<Real> part(gpt_units<Real>(kShape, &partners));
    const History<Real>& history = histories[partners.rank()] = train(part, seed);
    if (partners.rank() == 0) infos = part.infos();

    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_EQ(history.outcomes[step].rows, expected.outcomes[step].rows);
      EXPECT_NEAR(history.outcomes[step].loss / expected.outcomes[step].loss, 1, tolerance);
      Difference of_all;
      for (std::size_t p = 0; p < part.infos().size(); ++p) {
        const auto& own = history.gradients[step][p];
        const auto& all = expected.gradients[step][p];
        of_all.add(part.infos()[p], own, all);
        if (sizeof(Real) < 8) continue;  // where a parameter's terms cancel, floats are far off
        Difference of_one;
        of_one.add(part.infos()[p], own, all);
        EXPECT_LT(of_one.relative(), 10 * tolerance) << part.infos()[p].name << " in step " << step;
      }
      EXPECT_LT(of_all.relative(), tolerance) << "in step " << step;
    }

    const std::size_t rows = kSequences * kTokens, of_activations = 4 * kShape.blocks + 2;
    EXPECT_EQ(partners.sums().operations, kSteps * (of_activations + 1));
    EXPECT_EQ(partners.sums().elements,
              kSteps * (of_activations * rows * kShape.channels + 2 * rows));
    EXPECT_EQ(partners.maxima().operations, kSteps);
    EXPECT_EQ(partners.maxima().elements, kSteps * rows);
  });
  if (testing::Test::HasFailure()) return;

  for (std::size_t step = 0; step < kSteps; ++step) {
    for (const History<Real>& other : histories) {
      EXPECT_EQ(other.outcomes[step].loss, histories[0].outcomes[step].loss);
      EXPECT_EQ(other.outcomes[step].right, histories[0].outcomes[step].right);
      if (sizeof(Real) == 8) {
        EXPECT_EQ(other.outcomes[step].right, expected.outcomes[step].right);
      }
      for (std::size_t p = 0; p < infos.size(); ++p) {
        if (infos[p].split()) continue;
        EXPECT_EQ(other.gradients[step][p], histories[0].gradients[step][p]) << infos[p].name;
      }
    }
  }
}

TEST(TensorParallel, TwoPartnersComputeTheWhole) {
  compare_with_the_whole<float>(2, 1e-5);
}
TEST(TensorParallel, FourPartnersComputeTheWhole) {
  compare_with_the_whole<float>(4, 1e-5);
}
TEST(TensorParallel, TwoPartnersComputeTheWholeInDouble) {
  compare_with_the_whole<double>(2, 1e-12);
}
TEST(TensorParallel, FourPartnersComputeTheWholeInDouble) {
  compare_with_the_whole<double>(4, 1e-12);
}

TEST(TensorParallel, EveryElementOfASplitParameterHasOneOwner) {
  const Units<float> whole = gpt_units<float>(kShape);
  for (const std::size_t ranks : {1U, 2U, 4U}) {
    for (std::size_t u = 0; u < whole.size(); ++u) {
      for (std::size_t p = 0; p < whole[u]->parameters().size(); ++p) {
        const ParameterInfo& info = whole[u]->parameters()[p];
        std::vector<int> owners(info.size());
        bool split = true;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          Alone partners(rank, ranks);
          const Units<float> parts = gpt_units<float>(kShape, &partners);
          const ParameterInfo& part = parts[u]->parameters()[p];
          EXPECT_EQ(part.name, info.name);
          EXPECT_EQ(part.decays, info.decays);
          EXPECT_EQ(part.whole_size(), info.size());
          split = part.split();
          for (std::size_t i = 0; i < part.size(); ++i) ++owners.at(part.whole_index(i));
        }
        for (const int owner : owners)
          EXPECT_EQ(owner, split ? 1 : static_cast<int>(ranks)) << info.name;
        // What is not split is small: vectors, and the table of positions.
        EXPECT_TRUE(split || info.rows == 1 || info.name == "embedding.positions") << info.name;
      }
    }
  }
}

void expect_refused(const GptShape& shape, std::size_t ranks, const std::string& word) {
  Alone partners(0, ranks);
  try {
    gpt_units<float>(shape, &partners);
    ADD_FAILURE() << "not refused: " << word;
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find(word), std::string::npos) << failure.what();
  }
}

TEST(TensorParallel, RefusesShapesThatCannotBeSplit) {
  expect_refused({.heads = 4}, 3, "4 heads");
  expect_refused({.channels = 130, .heads = 4}, 2, "130 channels");
  expect_refused({.vocabulary = 3, .channels = 32, .heads = 4}, 4, "3 tokens");
}

}  // namespace tensor_parallel_test
}  // namespace training::test
