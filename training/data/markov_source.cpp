// SPDX-License-Identifier: Apache-2.0
// Generated text.
#include "markov_source.hpp"

#include <fmt/format.h>

#include "../math/counter_random.hpp"
#include "example_source.hpp"
#include "markov_chain.hpp"

namespace training {
namespace {

// The mean loss of so many rows is known to about 0.3 % of the entropy.
constexpr std::size_t kValidationRows = 65536;

class MarkovSource final : public Source {
 public:
  MarkovSource(std::size_t states, const Draw& draw)
      : chain_(draw.seed, states),
        shape_{.sequences = draw.sequences, .tokens = draw.tokens, .kinds = states},
        training_(draw.seed, kTraining),
        validation_(draw.seed, kValidation) {}

  [[nodiscard]] const Shape& shape() const override { return shape_; }
  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const override {
    generate(training_, number, inputs, targets);
  }
  [[nodiscard]] std::size_t rows(std::uint64_t /*number*/) const override {
    return shape_.targets();
  }
  [[nodiscard]] std::uint64_t epoch() const override { return 0; }
  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const override {
    generate(validation_, number, inputs, targets);
  }
  [[nodiscard]] std::uint64_t validations() const override {
    return groups_of(kValidationRows, shape_.targets());
  }
  [[nodiscard]] double entropy() const override { return chain_.entropy(); }
  [[nodiscard]] std::string describe() const override {
    return fmt::format("a Markov source of {} symbols with an entropy of {:.4f} nats",
                       chain_.states(), chain_.entropy());
  }

 private:
  void generate(const CounterRandom& random, std::uint64_t number, std::span<std::int32_t> inputs,
                std::span<std::int32_t> targets) const {
    for (std::uint32_t s = 0; s < shape_.sequences; ++s) {
      const std::uint64_t sequence = number * shape_.sequences + s;
      RandomWords words = random(sequence, 0, 0);
      std::size_t state = chain_.first(words[0], words[1]);
      for (std::uint32_t t = 0; t < shape_.tokens; ++t) {
        const std::size_t at = s * shape_.tokens + t;
        inputs[at] = static_cast<std::int32_t>(state);
        words = random(sequence, 0, t + 1);
        state = chain_.next(state, words[0], words[1]);
        targets[at] = static_cast<std::int32_t>(state);
      }
    }
  }

  MarkovChain chain_;
  Shape shape_;
  CounterRandom training_, validation_;
};

}  // namespace

std::unique_ptr<Source> markov_source(std::size_t states, const Draw& draw) {
  return std::make_unique<MarkovSource>(states, draw);
}

}  // namespace training
