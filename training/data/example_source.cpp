// SPDX-License-Identifier: Apache-2.0
// Examples, epoch after epoch.
#include "example_source.hpp"

#include <algorithm>
#include <limits>

#include "permutation.hpp"

namespace training {
namespace {

/// The part of `all` that belongs to a sequence.
std::span<std::int32_t> part(std::span<std::int32_t> all, std::size_t sequence, std::size_t size) {
  return all.subspan(sequence * size, size);
}

}  // namespace

ExampleSource::ExampleSource(const Shape& shape, std::uint64_t seed, std::size_t training,
                             std::size_t validation)
    : shape_(shape), seed_(seed), training_(training), validation_(validation) {}

std::uint64_t ExampleSource::epoch() const {
  return groups_of(training_, shape_.sequences);
}

std::uint64_t ExampleSource::validations() const {
  return groups_of(validation_, shape_.sequences);
}

double ExampleSource::entropy() const {
  return std::numeric_limits<double>::quiet_NaN();
}

template <class Visit>
void ExampleSource::for_each_example(std::uint64_t number, Visit visit) const {
  const Permutation order(CounterRandom(seed_, kOrder), number / epoch(),
                          static_cast<std::uint32_t>(training_));
  const std::size_t first = static_cast<std::size_t>(number % epoch()) * shape_.sequences;
  const std::size_t count = std::min(shape_.sequences, training_ - first);
  for (std::size_t s = 0; s < count; ++s) visit(s, order(static_cast<std::uint32_t>(first + s)));
}

void ExampleSource::fill(std::uint64_t number, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) const {
  std::ranges::fill(inputs, 0);
  std::ranges::fill(targets, -1);
  for_each_example(number, [&](std::size_t s, std::size_t example) {
    put(example, part(inputs, s, shape_.tokens * shape_.pixels), part(targets, s, shape_.tokens));
  });
}

std::size_t ExampleSource::rows(std::uint64_t number) const {
  std::size_t rows = 0;
  for_each_example(number, [&](std::size_t, std::size_t example) { rows += rows_of(example); });
  return rows;
}

void ExampleSource::fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                                    std::span<std::int32_t> targets) const {
  std::ranges::fill(inputs, 0);
  std::ranges::fill(targets, -1);
  for (std::size_t s = 0; s < shape_.sequences; ++s) {
    const std::size_t place = validation_place(number, s, validations());
    if (place >= validation_) return;
    put(training_ + place, part(inputs, s, shape_.tokens * shape_.pixels),
        part(targets, s, shape_.tokens));
  }
}

}  // namespace training
