// SPDX-License-Identifier: Apache-2.0
// Threads as ranks, and a source of examples for tests of training.
#pragma once
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <functional>

#include "data/source.hpp"
#include "measure/thread_ranks.hpp"

namespace training {

/// Runs `run` on threads as ranks; one that waits for another does so for 30 seconds at most.
inline void on_ranks(std::size_t ranks,
                     const std::function<void(collectives::Communicator world)>& run) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.deadline_s = 30;
  run_as_threads(ranks, config, run);
}

/// Text in which each token follows from the one before by a rule, with some noise.
class RuleSource final : public Source {
 public:
  RuleSource(std::size_t sequences, std::size_t tokens, std::size_t kinds)
      : shape_{sequences, tokens, 1, kinds} {}
  const Shape& shape() const override { return shape_; }
  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const override {
    std::uint64_t state = number * 0x9e3779b97f4a7c15U + 1;
    const auto draw = [&] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<std::size_t>(state >> 33U);
    };
    for (std::size_t s = 0; s < shape_.sequences; ++s) {
      std::size_t token = draw() % shape_.kinds;
      for (std::size_t t = 0; t < shape_.tokens; ++t) {
        inputs[s * shape_.tokens + t] = static_cast<std::int32_t>(token);
        token = draw() % 8 == 0 ? draw() % shape_.kinds : (token * 3 + 1) % shape_.kinds;
        targets[s * shape_.tokens + t] = static_cast<std::int32_t>(token);
      }
    }
  }
  std::size_t rows(std::uint64_t) const override { return shape_.targets(); }
  std::uint64_t epoch() const override { return 0; }
  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const override {
    fill(number + (std::uint64_t{1} << 40U), inputs, targets);
  }
  std::uint64_t validations() const override { return 4; }
  double entropy() const override { return 0; }
  std::string describe() const override { return "tokens by a rule"; }

 private:
  Shape shape_;
};

}  // namespace training
