// SPDX-License-Identifier: Apache-2.0
// Coll-plan, what a call would do on any machine that can be described, how long it should take,
// and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "coll_perf/coll_perf_table.hpp"
#include "coll_plan/coll_plan_scale.hpp"
#include "coll_plan/coll_plan_words.hpp"
#include "command_line.hpp"
#include "planner/algorithm_choice.hpp"
#include "planner/networks/machine_network.hpp"
#include "planner/planner.hpp"
#include "schedule/print.hpp"
#include "topology/read/discover.hpp"
#include "topology/read/read_topology.hpp"

namespace {

using namespace coll;
using namespace perf;
using Json = nlohmann::ordered_json;

struct ExplainOptions {
  std::string topology;
  Rank ranks = 0;
  std::string operation = "all_reduce";
  std::uint64_t bytes = 64 << 20;
  Rank root = 0;
  std::string algorithm, order = "any", picture;
  bool json = false, steps = false;
};

Json json_of(const Candidate& candidate, const CollectiveSpec& spec, double bytes) {
  const Prediction& prediction = candidate.prediction;
  return {{"algorithm", candidate.plan.algorithm->name},
          {"us", prediction.us},
          {"busbw_GBps", busbw(spec.collective, spec.ranks, bytes, prediction.us)},
          {"bottleneck", prediction.bottleneck.empty() ? Json() : Json(prediction.bottleneck)},
          {"busy", prediction.busy},
          {"when", candidate.plan.algorithm->sentence}};
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
              ? fmt::format("; {} takes {:.2f} times as long", list[1].plan.algorithm->name, behind)
              : fmt::format("; {} is as fast, and moves more or needs more connections",
                            list[1].plan.algorithm->name);
  return text;
}

/// A call on a machine, planned.
struct Planned {
  Topology topology;
  World world;
  CollectiveSpec spec;
  double bytes = 0;  ///< of its size class
  Plan plan;
  std::vector<Candidate> candidates;  ///< the fastest first
  std::vector<Candidate> cuts;        ///< of the chosen algorithm, the one taken first
};

Result<Planned> plan_call(const ExplainOptions& options) {
  Planned made;
  COLL_ASSIGN(made.topology,
              options.topology.empty() ? discover() : read_topology_file(options.topology));
  const int gpus = made.topology.count(NodeKind::gpu);
  const int parts = gpus > 0 ? gpus : std::max(1, made.topology.count(NodeKind::core));
  const Rank ranks = options.ranks > 0 ? options.ranks : static_cast<Rank>(parts);
  if (ranks > kMostDescribedRanks) {
    return failed(
        Code::invalid_argument,
        fmt::format("{} ranks are more than are simulated pair by pair", ranks),
        fmt::format(
            "ask for at most {} with --ranks; coll-plan scale goes further, for equal hosts",
            kMostDescribedRanks));
  }
  COLL_ASSIGN(const Placement placement, place_ranks(made.topology, ranks));
  made.world = machine_world(made.topology, placement);
  made.world.algorithm = options.algorithm;
  COLL_TRY(check_algorithm_knob(options.algorithm));
  COLL_ASSIGN(const Collective collective, collective_of(options.operation));
  if (options.root < 0 || options.root >= ranks) {
    return failed(Code::invalid_argument,
                  fmt::format("root {} is none of {} ranks", options.root, ranks),
                  "give --root a rank from 0 on");
  }
  COLL_TRY(check_bytes({options.bytes}));
  made.spec = {collective, ranks, has_root(collective) ? options.root : 0};
  if (options.order == "tree" && reduces(collective)) made.spec.order = SumOrder::tree;
  const std::uint32_t size = size_class(options.bytes);
  COLL_ASSIGN(made.plan, make_plan(made.world, {made.spec, size}));
  made.candidates = candidates(made.world, made.spec, size);
  made.bytes = most_bytes(size);
  const Plan rule =
      plan_with(made.world, made.spec, *made.plan.algorithm, made.plan.demanded, size);
  made.cuts = cuts(made.world, rule, size);
  return made;
}

Json json_of(const Planned& call) {
  const Plan& plan = call.plan;
  Json out{{"tool", "coll-plan"},
           {"schema", 1},
           {"topology", call.topology.source},
           {"ranks", call.spec.ranks},
           {"hosts", call.world.layout.hosts()},
           {"operation", name_of(call.spec.collective)},
           {"root", has_root(call.spec.collective) ? Json(call.spec.root) : Json()},
           {"order", call.spec.order == SumOrder::tree ? "tree" : "any"},
           {"bytes", call.bytes},
           {"algorithm", plan.algorithm->name},
           {"forced", plan.forced},
           {"lanes", plan.lanes},
           {"slice_bytes", plan.slice_bytes},
           {"predicted_us", plan.predicted_us},
           {"reason", reason(call.candidates, plan)},
           {"candidates", Json::array()},
           {"cuts", Json::array()},
           {"warnings", call.topology.warnings}};
  for (const Candidate& each : call.candidates) {
    out["candidates"].push_back(json_of(each, call.spec, call.bytes));
  }
  for (const Candidate& each : call.cuts) {
    out["cuts"].push_back({{"lanes", each.plan.lanes},
                           {"slice_bytes", each.plan.slice_bytes},
                           {"us", each.prediction.us}});
  }
  return out;
}

void print_text(const Planned& call) {
  const Rank ranks = call.spec.ranks, hosts = call.world.layout.hosts();
  fmt::print("{} of {} over {} rank{} on {} host{}{} ({})\n", name_of(call.spec.collective),
             bytes_text(call.bytes), ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s",
             call.spec.order == SumOrder::tree ? " in the order of the tree" : "",
             call.topology.source);
  for (const std::string& warning : call.topology.warnings) fmt::print("warning: {}\n", warning);
  fmt::print("\n{:<28} {:>12} {:>10}  {}\n", "candidate", "us", "busbw GB/s", "bottleneck");
  for (const Candidate& each : call.candidates) {
    const Prediction& of = each.prediction;
    fmt::print("{:<28} {:>12.1f} {:>10.2f}  {}\n", each.plan.algorithm->name, of.us,
               busbw(call.spec.collective, ranks, call.bytes, of.us),
               of.bottleneck.empty() ? "not simulated"
                                     : fmt::format("{} ({:.0f} %)", of.bottleneck, 100 * of.busy));
  }
  const Plan& plan = call.plan;
  fmt::print("\nchoice: {}, {} lane{}, slices of {}\nwhy: {}\n", plan.algorithm->name, plan.lanes,
             plan.lanes == 1 ? "" : "s", bytes_text(plan.slice_bytes),
             reason(call.candidates, plan));
  if (call.cuts.size() == 1) return;
  fmt::print("cuts weighed:");
  for (const Candidate& each : call.cuts) {
    fmt::print("{} {} x {} {:.1f} us", &each == &call.cuts.front() ? "" : ";", each.plan.lanes,
               bytes_text(each.plan.slice_bytes), each.prediction.us);
  }
  fmt::print("\n");
}

int explain_plan(const ExplainOptions& options) {
  const Result<Planned> call = plan_call(options);
  if (!call.ok()) return fail(call.status());
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < call->spec.ranks; ++rank) {
    schedules.push_back(call->plan.algorithm->build(call->spec, call->world.layout, rank));
  }
  if (!options.picture.empty() && !write_picture(options.picture, draw(schedules))) return 1;
  if (options.json) {
    std::cout << json_of(*call).dump(2) << '\n';
    return 0;
  }
  print_text(*call);
  if (options.steps) {
    for (const Schedule& schedule : schedules) fmt::print("\n{}", print(schedule));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans a call on a machine that need not be here, and says why.", "coll-plan");
  app.require_subcommand(1);
  ExplainOptions options;
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
  explain->add_option("--order", options.order, "of sums of floats, as COLL_ORDER says it; any")
      ->check(CLI::IsMember({"any", "tree"}));
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
