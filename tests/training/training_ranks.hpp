// SPDX-License-Identifier: Apache-2.0
// Threads as ranks, and a source of examples for tests of training.
#pragma once
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "data/source.hpp"
#include "memory/failure.hpp"

namespace training {

/// Runs `run` on `ranks` threads, each with a communicator of all of them. A rank that fails aborts
/// the others; the first failure is thrown.
inline void on_ranks(std::size_t ranks,
                     const std::function<void(collectives::Communicator world)>& run) {
  coll_unique_id_t id;
  value_of(collectives::detail::result(coll_get_unique_id(&id)));
  std::vector<std::exception_ptr> failures(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        coll_config_t config = COLL_CONFIG_INIT;
        config.deadline_s = 30;
        run(value_of(collectives::Communicator::join(id, static_cast<int>(ranks),
                                                     static_cast<int>(rank), &config)));
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
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
