// SPDX-License-Identifier: Apache-2.0
// coll-train: trains a model over libcollectives, as one of its ranks.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "../checkpoint/checkpoint_table.hpp"
#include "asynchronous_run.hpp"
#include "train_run.hpp"

namespace {

int run(int argc, const char* const* argv) {
  const auto parsed = training::parse_train_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  const training::TrainOptions& options = parsed.options;
  if (options.list_checkpoints) {
    fmt::print("{}", training::describe_checkpoints(options.save));
    return 0;
  }
  if (options.estimate) {
    training::print_estimate(options, std::max<std::size_t>(options.mesh.data, 1));
    return 0;
  }
  auto world = training::value_of(collectives::Communicator::from_environment());
  return options.staleness ? training::run_asynchronously(options, std::move(world))
                           : training::run_training(options, std::move(world));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const training::Failure& failure) {
    fmt::print(stderr, "coll-train: {}\n", failure.what());
    // Without the destructors of what may wait for other ranks.
    std::fflush(nullptr);
    std::_Exit(failure.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "coll-train: {}\n", error.what());
    return training::Failure::kFailed;
  }
}
