// SPDX-License-Identifier: Apache-2.0
// Measures overlap and pipeline bubbles with threads of this process as ranks, or processes that a
// launcher started.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "measure_report.hpp"
#include "thread_ranks.hpp"

namespace training {
namespace {

struct Command {
  std::vector<std::size_t> ranks = {2, 4, 8};
  std::string transports, json;
  bool launched = false;  ///< by coll-run or another launcher: each process is a rank
  OverlapOptions overlap;
  BubbleOptions bubble;
  std::size_t microseconds = 4000;
};

/// `measure` on each number of ranks; prints a table, and writes JSON where asked for.
template <class Result, class Measure>
void report(const Command& command, Measure measure) {
  std::vector<Result> all;
  if (command.launched) {
    auto world = value_of(collectives::Communicator::from_environment());
    const bool first = world.rank() == 0;
    all = measure(std::move(world));
    if (!first) return;
  } else {
    coll_config_t config = COLL_CONFIG_INIT;
    if (!command.transports.empty()) config.transports = command.transports.c_str();
    for (const std::size_t ranks : command.ranks) {
      run_as_threads(ranks, config, [&](collectives::Communicator world) {
        const bool first = world.rank() == 0;
        const std::vector<Result> results = measure(std::move(world));
        if (first) all.insert(all.end(), results.begin(), results.end());
      });
    }
  }
  fmt::print("{}", table_of(all));
  if (command.json.empty()) return;
  std::ofstream file(command.json);
  file << json_of(all).dump(2) << "\n";
  if (!file.flush()) throw Failure("cannot write " + command.json);
}

int run(int argc, char** argv) {
  Command command;
  CLI::App app("Measures overlap and pipeline bubbles of training with virtual compute");
  app.add_option("--ranks", command.ranks, "numbers of ranks (threads)")->delimiter(',');
  app.add_option("--transports", command.transports, "of the library, such as tcp");
  app.add_flag("--launched", command.launched, "each process is a rank (coll-run, torchrun, ...)");
  app.add_option("--json", command.json, "a file for the results");
  app.require_subcommand(1);
  app.fallthrough();
  auto* overlap = app.add_subcommand("overlap", "steps with and without overlap, and the model");
  overlap->add_option("--ratios", command.overlap.ratios, "backward pass in sums")->delimiter(',');
  overlap->add_option("--channels", command.overlap.channels,
                      "of the GPT whose gradients are summed");
  overlap->add_option("--steps", command.overlap.steps, "of each kind");
  auto* bubble = app.add_subcommand("bubble", "idle shares of GPipe and 1F1B, and the formula");
  bubble->add_option("--leaves", command.bubble.leaves, "micro-batches of a step")->delimiter(',');
  bubble->add_option("--steps", command.bubble.steps, "of each kind");
  bubble->add_option("--forward", command.microseconds, "microseconds of a stage's forward pass");
  CLI11_PARSE(app, argc, argv);
  command.bubble.forward = std::chrono::microseconds(command.microseconds);
  try {
    if (*overlap) {
      report<OverlapResult>(command, [&](collectives::Communicator world) {
        return measure_overlap(std::move(world), command.overlap);
      });
    } else {
      report<BubbleResult>(command, [&](collectives::Communicator world) {
        return measure_bubble(std::move(world), command.bubble);
      });
    }
  } catch (const Failure& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return failure.code();
  }
  return 0;
}

}  // namespace
}  // namespace training

int main(int argc, char** argv) {
  return training::run(argc, argv);
}
