// SPDX-License-Identifier: Apache-2.0
// coll-train: trains a model over libcollectives, as one of its ranks.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "../checkpoint/checkpoint_table.hpp"
#include "agreement.hpp"
#include "asynchronous_run.hpp"
#include "train_run.hpp"

namespace training {
namespace {

/// All ranks were given the same bad options: they meet, and one of them says so. If they do not
/// meet soon, each does.
[[noreturn]] void refuse(const Failure& refusal) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.connect_s = 5;
  auto world = collectives::Communicator::from_environment(&config);
  if (world) agree(*world, [&] { throw refusal; });
  throw refusal;
}

int run(int argc, const char* const* argv) {
  const Parsed parsed = parse_train_options(argc, argv);
  if (parsed.helped) return 0;
  if (parsed.refusal) refuse(*parsed.refusal);
  const TrainOptions& options = parsed.options;
  if (options.list_checkpoints) {
    fmt::print("{}", describe_checkpoints(options.save));
    return 0;
  }
  if (options.estimate) {
    print_estimate(options, std::max<std::size_t>(options.mesh.data, 1));
    return 0;
  }
  auto world = value_of(collectives::Communicator::from_environment());
  agree(world, [] {});  // another rank's options may be bad
  if (options.staleness)
    run_asynchronously(options, std::move(world));
  else
    run_training(options, std::move(world));
  return 0;
}

/// Without the destructors of what may wait for other ranks.
[[noreturn]] void end(const char* text, int code) {
  if (*text != '\0') fmt::print(stderr, "coll-train: {}\n", text);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace
}  // namespace training

int main(int argc, char** argv) {
  try {
    return training::run(argc, argv);
  } catch (const training::Failure& failure) {
    training::end(failure.what(), failure.code());
  } catch (const std::exception& error) {
    training::end(error.what(), training::Failure::kFailed);
  }
}
