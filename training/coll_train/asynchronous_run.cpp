// SPDX-License-Identifier: Apache-2.0
// The loops of server and workers, and what they tell.
#include "asynchronous_run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "../asynchronous/asynchronous_worker.hpp"
#include "../asynchronous/parameter_server.hpp"
#include "optimizer_place.hpp"
#include "run_parts.hpp"

namespace training {
namespace {

void serve(const TrainOptions& options, const AsynchronousOptions& how, const Source& source,
           const Units<float>& units, collectives::Communicator& world) {
  const auto began = Clock::now();
  Arena arena;
  HostMemory host;
  OptimizerPlace place(options, arena, host);
  ParameterServer server(how, units, source.shape().targets(), world, arena,
                         [&](Owned owned) { return place.make(std::move(owned)); });
  server.serve();
  const double seconds = seconds_since(began);
  std::size_t clocks = 0;
  for (const std::size_t clock : server.clocks()) clocks += clock;
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"staleness", how.staleness},
                                      {"workers", server.clocks().size()},
                                      {"steps", server.steps()},
                                      {"clocks", server.clocks()},
                                      {"seconds", seconds}}
                           .dump(2));
  } else if (!options.quiet) {
    fmt::print("{} workers did {} clocks in {:.2f} s; {} steps of the optimizer\n",
               server.clocks().size(), clocks, seconds, server.steps());
  }
}

void work(const TrainOptions& options, const AsynchronousOptions& how, const Source& source,
          const Units<float>& units, collectives::Communicator& world) {
  constexpr double kShowEvery = 2;  // seconds
  Arena arena;
  AsynchronousWorker worker(how, units, source, world, arena);
  const auto began = Clock::now();
  double shown = 0;
  std::size_t ahead = 0, most_ahead = 0;
  Outcome sum;
  while (worker.clock() < options.steps) {
    ahead = worker.pull();
    most_ahead = std::max(most_ahead, ahead);
    const Outcome outcome = worker.push();
    sum.loss += outcome.loss;
    sum.rows += outcome.rows;
    const double now = seconds_since(began);
    if (world.rank() != 1 || options.quiet || options.json) continue;
    if (now - shown < kShowEvery && worker.clock() < options.steps) continue;
    fmt::print("clock {}/{}  loss {:.4f}  worker 1 is {} clocks ahead of the slowest\n",
               worker.clock(), options.steps, sum.loss / static_cast<double>(sum.rows), ahead);
    std::fflush(stdout);
    sum = {};
    shown = now;
  }
  worker.end();
  if (!options.quiet && !options.json) {
    fmt::print("worker {}: {} clocks, at most {} ahead of the slowest\n", world.rank(),
               worker.clock(), most_ahead);
  }
}

}  // namespace

void run_asynchronously(const TrainOptions& options, collectives::Communicator world) {
  const auto source = make_source(options);
  const Units<float> units = make_units(options, *source, nullptr);
  AsynchronousOptions how;
  how.training = options.trainer;
  how.staleness = *options.staleness;
  if (how.staleness > 0) {
    // Each worker's gradient is a step of its own.
    const auto workers = static_cast<std::size_t>(world.size() - 1);
    how.training.rate.steps *= workers;
    how.training.rate.warm_up *= workers;
  }
  if (world.rank() == 0)
    serve(options, how, *source, units, world);
  else
    work(options, how, *source, units, world);
}

}  // namespace training
