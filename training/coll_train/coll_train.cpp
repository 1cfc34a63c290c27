// SPDX-License-Identifier: Apache-2.0
// coll-train: trains a model over libcollectives, as one of its ranks.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../checkpoint/checkpoint_table.hpp"
#include "../math/open_blas.hpp"
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

/// What this rank says as it fails. Where another rank is lost, all fail: one of them says all.
std::string words_of(const Failure& failure, int rank, const TrainOptions& options) {
  const int lost = failure.lost();
  if (lost >= 0 && lost != rank && rank != (lost == 0 ? 1 : 0))
    return fmt::format("rank {} ends, because rank {} is lost", rank, lost);
  std::string text = fmt::format("rank {}: {}", rank, failure.what());
  if (failure.code() == Failure::kPeerLost && !options.save.empty()) {
    text += fmt::format(
        ". The same command goes on from the newest checkpoint in {}, if one is "
        "there",
        options.save);
  }
  return text;
}

void train(const TrainOptions& options, collectives::Communicator world) {
  const int rank = world.rank();
  try {
    agree(world, [] {});  // another rank's options may be bad
    if (options.staleness)
      run_asynchronously(options, std::move(world));
    else
      run_training(options, std::move(world));
  } catch (const SharedFailure&) {
    throw;
  } catch (const Failure& failure) {
    throw Failure(words_of(failure, rank, options), failure.code());
  }
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
  open_blas();  // it sets a variable of the environment: there is one thread yet
  train(options, value_of(collectives::Communicator::from_environment()));
  return 0;
}

/// Without the destructors of what may wait for other ranks.
[[noreturn]] void end(const char* text, int code) {
  if (*text != '\0') fmt::print(stderr, "coll-train: {}\n", text);
  std::fflush(nullptr);
  // The others learn at about this time which rank is lost. Whoever leaves before they do would be
  // named in its place.
  if (code == Failure::kPeerLost) std::this_thread::sleep_for(std::chrono::milliseconds(500));
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
