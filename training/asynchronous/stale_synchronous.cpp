// SPDX-License-Identifier: Apache-2.0
// What server and workers agree on.
#include "stale_synchronous.hpp"

#include <fmt/format.h>

#include <limits>

namespace training::asynchronous {

FlatLayout layout_of(const Units<float>& units) {
  const auto sizes = sizes_of(units);
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  return FlatLayout::by_bytes(sizes, FlatLayout::backward_order(sizes), {kAll, kAll, 4},
                              kParameterAlignment);
}

const AsynchronousOptions& checked(const AsynchronousOptions& options,
                                   const collectives::Communicator& comm) {
  const TrainerOptions& training = options.training;
  if (comm.size() < 2) {
    throw Failure("asynchronous training needs a server and a worker: start at least 2 ranks",
                  Failure::kBadUsage);
  }
  const auto workers = static_cast<std::size_t>(comm.size() - 1);
  if (training.leaves < workers) {
    throw Failure(
        fmt::format("{} workers have only {} micro-batches in a clock: each needs at least "
                    "one; give more micro-batches, or fewer ranks",
                    workers, training.leaves),
        Failure::kBadUsage);
  }
  if (training.zero != 0 || training.weights != Format::f32 || training.gradients != Format::f32 ||
      training.drop > 0) {
    throw Failure(
        "asynchronous training has neither ZeRO's stages, nor formats of 16 bits, nor units that "
        "are left out: use f32, or train synchronously",
        Failure::kBadUsage);
  }
  return options;
}

}  // namespace training::asynchronous
