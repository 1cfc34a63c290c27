// SPDX-License-Identifier: Apache-2.0
// A source of separate examples (images, verses): each is in one sequence of one micro-batch of an
// epoch, in an order of the epoch's own. The last micro-batch of an epoch may be short.
#pragma once
#include <string>

#include "draw.hpp"
#include "source.hpp"

namespace training {

class ExampleSource : public Source {
 public:
  [[nodiscard]] const Shape& shape() const final { return shape_; }
  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const final;
  [[nodiscard]] std::size_t rows(std::uint64_t number) const final;
  [[nodiscard]] std::uint64_t epoch() const final;
  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const final;
  [[nodiscard]] std::uint64_t validations() const final;
  [[nodiscard]] double entropy() const final;

 protected:
  /// Examples 0 to `training` - 1 are for training, and `validation` more for validation.
  ExampleSource(const Shape& shape, std::uint64_t seed, std::size_t training,
                std::size_t validation);
  /// Rows of an example that count.
  [[nodiscard]] virtual std::size_t rows_of(std::size_t example) const = 0;
  /// Writes those rows; all inputs are 0 and all targets -1 before.
  virtual void put(std::size_t example, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> targets) const = 0;

 private:
  /// Calls visit(sequence, example) for each sequence of a micro-batch that has an example.
  template <class Visit>
  void for_each_example(std::uint64_t number, Visit visit) const;

  Shape shape_;
  std::uint64_t seed_;
  std::size_t training_, validation_;
};

/// In which place of validation a sequence of a validation batch stands: batches take every n-th of
/// `validations` = n, so that each of them is a sample of the whole.
inline std::size_t validation_place(std::uint64_t number, std::size_t sequence,
                                    std::uint64_t validations) {
  return static_cast<std::size_t>(number + sequence * validations);
}

/// How many groups of `size` hold `count`; the last may be short.
constexpr std::size_t groups_of(std::size_t count, std::size_t size) {
  return (count + size - 1) / size;
}

}  // namespace training
