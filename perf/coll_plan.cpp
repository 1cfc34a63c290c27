// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: coll-plan, what a call would do on any machine that
// can be described, how long it should take, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "coll_plan_scale.hpp"
#include "coll_plan_words.hpp"
#include "command_line.hpp"
#include "planner/algorithm_choice.hpp"
#include "planner/machine_network.hpp"
#include "planner/planner.hpp"
#include "schedule/print.hpp"
#include "topology/discover.hpp"
#include "topology/read_topology.hpp"

namespace {

using namespace coll;
using namespace perf;
using Json = nlohmann::ordered_json;

struct Options {
  std::string topology;
  Rank ranks = 0;
  std::string operation = "all_reduce";
  std::uint64_t bytes = 64 << 20;
  Rank root = 0;
  std::string algorithm, picture;
  bool json = false, steps = false;
};

Json json_of(const Candidate& candidate, const CollectiveSpec& spec, double bytes) {
  const Prediction& prediction = candidate.prediction;
  return {{"algorithm", candidate.algorithm->name},
          {"us", prediction.us},
          {"busbw_GBps", busbw(spec.collective, spec.ranks, bytes, prediction.us)},
          {"bottleneck", prediction.bottleneck.empty() ? Json() : Json(prediction.bottleneck)},
          {"busy", prediction.busy},
          {"when", candidate.algorithm->sentence}};
}

/// One sentence: what bounds the choice, and by how much it is ahead.
std::string reason(const std::vector<Candidate>& list, const Plan& plan) {
  if (plan.forced) return "it was asked for";
  if (list.size() == 1) return "no other algorithm can do it";
  const Prediction& best = list.front().prediction;
  const double behind = list[1].prediction.us / best.us;
  std::string text =
      best.bottleneck == "latency"
          ? "messages wait for each other for most of the time, and it has few in a row"
      : best.bottleneck.empty()
          ? "a closed formula finds it best"
          : fmt::format("{} is busy for {:.0f} % of the time", best.bottleneck, 100 * best.busy);
  text += behind > 1.005
              ? fmt::format("; {} takes {:.2f} times as long", list[1].algorithm->name, behind)
              : fmt::format("; {} is as fast, and moves more or needs more connections",
                            list[1].algorithm->name);
  return text;
}

int explain_plan(const Options& options) {
  const Result<Topology> read =
      options.topology.empty() ? discover() : read_topology_file(options.topology);
  if (!read.ok()) return fail(read.status());
  const Topology& topology = *read;
  const int gpus = topology.count(NodeKind::gpu);
  const int parts = gpus > 0 ? gpus : std::max(1, topology.count(NodeKind::core));
  const Rank ranks = options.ranks > 0 ? options.ranks : static_cast<Rank>(parts);
  if (ranks > kMostDescribedRanks) {
    return fail(failed(Code::invalid_argument,
                       fmt::format("{} ranks are more than are simulated pair by pair", ranks),
                       fmt::format("ask for at most {} with --ranks", kMostDescribedRanks)));
  }
  const Result<Placement> placement = place_ranks(topology, ranks);
  if (!placement.ok()) return fail(placement.status());
  World world = machine_world(topology, *placement);
  world.algorithm = options.algorithm;
  if (const Status known = check_algorithm_knob(options.algorithm); !known.ok()) return fail(known);
  const Result<Collective> collective = collective_of(options.operation);
  if (!collective.ok()) return fail(collective.status());
  if (options.root < 0 || options.root >= ranks) {
    return fail(failed(Code::invalid_argument,
                       fmt::format("root {} is none of {} ranks", options.root, ranks),
                       "give --root a rank from 0 on"));
  }
  if (const Status fits = check_bytes({options.bytes}); !fits.ok()) return fail(fits);
  const CollectiveSpec spec{*collective, ranks, has_root(*collective) ? options.root : 0};
  const std::uint32_t size = size_class(options.bytes);
  const Result<Plan> plan = make_plan(world, spec, size);
  if (!plan.ok()) return fail(plan.status());
  const std::vector<Candidate> list = candidates(world, spec, size);
  const double bytes = static_cast<double>(std::uint64_t{1} << size);

  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < ranks; ++rank) {
    schedules.push_back(plan->algorithm->build(spec, world.layout, rank));
  }
  if (!options.picture.empty() && !write_picture(options.picture, draw(schedules))) return 1;
  if (options.json) {
    Json out{{"tool", "coll-plan"},
             {"schema", 1},
             {"topology", topology.source},
             {"ranks", ranks},
             {"hosts", world.layout.hosts()},
             {"operation", name_of(spec.collective)},
             {"root", has_root(spec.collective) ? Json(spec.root) : Json()},
             {"bytes", bytes},
             {"algorithm", plan->algorithm->name},
             {"forced", plan->forced},
             {"lanes", plan->lanes},
             {"slice_bytes", plan->slice_bytes},
             {"predicted_us", plan->predicted_us},
             {"reason", reason(list, *plan)},
             {"candidates", Json::array()},
             {"warnings", topology.warnings}};
    for (const Candidate& each : list) out["candidates"].push_back(json_of(each, spec, bytes));
    std::cout << out.dump(2) << '\n';
    return 0;
  }

  fmt::print("{} of {} over {} rank{} on {} host{} ({})\n", name_of(spec.collective),
             text_of_bytes(static_cast<std::uint64_t>(bytes)), ranks, ranks == 1 ? "" : "s",
             world.layout.hosts(), world.layout.hosts() == 1 ? "" : "s", topology.source);
  for (const std::string& warning : topology.warnings) fmt::print("warning: {}\n", warning);
  fmt::print("\n{:<28} {:>12} {:>10}  {}\n", "candidate", "us", "busbw GB/s", "bottleneck");
  for (const Candidate& each : list) {
    const Prediction& of = each.prediction;
    fmt::print("{:<28} {:>12.1f} {:>10.2f}  {}\n", each.algorithm->name, of.us,
               busbw(spec.collective, ranks, bytes, of.us),
               of.bottleneck.empty() ? "not simulated"
                                     : fmt::format("{} ({:.0f} %)", of.bottleneck, 100 * of.busy));
  }
  fmt::print("\nchoice: {}, {} lane{}, slices of {}\nwhy: {}\n", plan->algorithm->name, plan->lanes,
             plan->lanes == 1 ? "" : "s", text_of_bytes(plan->slice_bytes), reason(list, *plan));
  if (options.steps) {
    for (const Schedule& schedule : schedules) fmt::print("\n{}", print(schedule));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans a call on a machine that need not be here, and says why.", "coll-plan");
  app.require_subcommand(1);
  Options options;
  CLI::App* explain = app.add_subcommand(
      "explain", "the candidates with their predicted times, the choice, its reason, its steps");
  explain->add_option("-t,--topology", options.topology,
                      "a machine's file, or a line of text (docs/topology.md); this machine");
  explain->add_option("-n,--ranks", options.ranks,
                      "on its GPUs in order, else its cores; all of them");
  explain->add_option("-o,--operation", options.operation, "all_reduce, broadcast …; all_reduce");
  explain->add_option("-b,--bytes", options.bytes, "of the larger buffer of a rank; 64M")
      ->transform(CLI::AsSizeValue(false));
  explain->add_option("-r,--root", options.root, "where the operation has one; 0");
  explain->add_option("-a,--algorithm", options.algorithm, "this one, as COLL_ALGORITHM says it");
  explain->add_option("--svg", options.picture, "draw the schedule into this file");
  explain->add_flag("--steps", options.steps, "print the schedule of every rank");
  explain->add_flag("--json", options.json, "everything, for programs");

  ScaleOptions scaling;
  CLI::App* scale = app.add_subcommand(
      "scale", "times over the number of ranks on a cluster of equal hosts, simulated");
  scale->add_option("-t,--topology", scaling.topology, "at least two equal hosts with GPUs")
      ->required();
  scale->add_option("-o,--operation", scaling.operation, "all_reduce, broadcast …; all_reduce");
  scale->add_option("-b,--bytes", scaling.bytes, "of the larger buffer of a rank; several sizes")
      ->transform(CLI::AsSizeValue(false))
      ->delimiter(',');
  scale->add_option("-a,--algorithms", scaling.algorithms, "these; those that are ahead somewhere")
      ->delimiter(',');
  scale->add_option("-n,--ranks", scaling.most_ranks, "up to so many; 65536");
  scale->add_option("--svg", scaling.picture, "draw each size into PREFIX-SIZE.svg");
  scale->add_flag("--json", scaling.json, "for programs");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  try {
    return scale->parsed() ? plan_scale(scaling) : explain_plan(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "coll-plan: {}\n", error.what());
    return 1;
  }
}
