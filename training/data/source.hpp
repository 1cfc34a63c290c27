// SPDX-License-Identifier: Apache-2.0
// Where examples come from. Micro-batches have numbers, and what is in one is a function of its
// number and the seed alone: any rank can make any of them, at any time, and a restart needs to
// know no more than the next number. Four micro-batches of 8 sequences have the sequences of one
// with 32, if an epoch has a whole number of both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace training {

class Source {
 public:
  /// Elements of a micro-batch: a text has `tokens` inputs and targets for each sequence; images
  /// have `tokens` = 1, and `pixels` inputs for each target.
  struct Shape {
    std::size_t sequences = 0, tokens = 1, pixels = 1;
    std::size_t kinds = 0;  ///< of targets: tokens of the vocabulary, or classes
    [[nodiscard]] std::size_t inputs() const { return sequences * tokens * pixels; }
    [[nodiscard]] std::size_t targets() const { return sequences * tokens; }
  };

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  [[nodiscard]] virtual const Shape& shape() const = 0;
  /// Fills micro-batch `number` of training. A target of -1 does not count.
  virtual void fill(std::uint64_t number, std::span<std::int32_t> inputs,
                    std::span<std::int32_t> targets) const = 0;
  /// How many targets of micro-batch `number` count: what it costs, before it is filled.
  [[nodiscard]] virtual std::size_t rows(std::uint64_t number) const = 0;
  /// Micro-batches that pass over the training data once; 0: there is no end.
  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  /// Micro-batches that training never sees, and the number of them.
  virtual void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                               std::span<std::int32_t> targets) const = 0;
  [[nodiscard]] virtual std::uint64_t validations() const = 0;
  /// The lowest mean loss that a model can reach, in nats; NaN: it is not known.
  [[nodiscard]] virtual double entropy() const = 0;
  /// A sentence for a person: what it is, and how much of it there is.
  [[nodiscard]] virtual std::string describe() const = 0;
};

}  // namespace training
