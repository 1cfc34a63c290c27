// SPDX-License-Identifier: Apache-2.0
// collectives/: one file per pattern, each a pure function to a Schedule. This file: algorithms
// inside hosts and between them, composed.
#include "collectives/hierarchical.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "collectives/patterns.hpp"

namespace coll {

Composer::Composer(const Hierarchy& hierarchy, const CollectiveSpec& of, const Layout& layout,
                   Rank rank)
    : how(hierarchy),
      spec(of),
      grid(layout, hierarchy.leaders ? 1 : 0, has_root(of.collective) ? of.root : 0, rank) {
  schedule.rank = rank;
}

void Composer::start(std::uint32_t parts) {
  schedule = start_schedule(std::string(how.name), spec, schedule.rank, parts);
}

std::uint32_t Composer::room(std::uint32_t chunks) {
  return std::exchange(room_, room_ + chunks);
}

void Composer::count_rounds(const Algorithm& algorithm, Collective collective, Rank ranks,
                            Rank root) {
  if (ranks > 1) rounds += algorithm.cost({collective, ranks, root}, Layout::flat(ranks)).rounds;
}

void Composer::run(const Schedule& part, const std::vector<Rank>& group, Embedding& embedding) {
  embedding.ranks = group;
  embed(part, embedding, schedule.lanes[0]);
}

Schedule Composer::line_part() const {
  const Algorithm& algorithm = *how.line[static_cast<int>(spec.collective)];
  const Rank root = has_root(spec.collective) ? grid.root_host : 0;
  return algorithm.build({spec.collective, grid.hosts, root}, Layout::flat(grid.hosts), grid.host);
}

void Composer::on_line(const Schedule& part, Embedding embedding) {
  count_rounds(*how.line[static_cast<int>(spec.collective)], spec.collective, grid.hosts,
               part.spec.root);
  if (grid.owns()) run(part, grid.line(), embedding);
}

void Composer::in_row(const Algorithm& algorithm, Collective collective, Embedding embedding) {
  const Rank root = has_root(collective) ? grid.root_rail : 0;
  count_rounds(algorithm, collective, grid.rails, root);
  if (!grid.owns() || grid.rails == 1) return;
  if (has_root(collective) && grid.host != grid.root_host) return;
  const CollectiveSpec of{collective, grid.rails, root};
  run(algorithm.build(of, Layout::flat(grid.rails), grid.rail), grid.row(), embedding);
}

void Composer::in_pod(Collective collective, Embedding embedding) {
  count_rounds(kBinomial, collective, grid.largest_pod);
  const std::vector<Rank> pod = grid.pod();
  const auto ranks = static_cast<Rank>(pod.size());
  if (ranks == 1) return;
  run(kBinomial.build({collective, ranks, 0}, Layout::flat(ranks), grid.turn), pod, embedding);
}

void Composer::in_host(const Algorithm& algorithm, Collective collective, Embedding embedding) {
  const std::vector<Rank>& members = grid.members(grid.host);
  const auto ranks = static_cast<Rank>(members.size());
  count_rounds(algorithm, collective, ranks);
  const Algorithm& some = ranks == 1 ? kLocal : algorithm;
  run(some.build({collective, ranks, 0}, Layout::flat(ranks), grid.place()), members, embedding);
}

namespace {

using enum Collective;

constexpr Rank kEveryRank = 64;  ///< up to here the busiest rank is looked for among all
constexpr Rank kSample = 16;     ///< beyond, among so many

bool supports(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout) {
  return how.line[static_cast<int>(spec.collective)] != nullptr && layout.hosts() >= 2 &&
         layout.hosts() < layout.ranks();
}

Composer composed(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout,
                  Rank rank) {
  Composer composer(how, spec, layout, rank);
  if (one_of(spec.collective, all_reduce, reduce, broadcast, barrier)) {
    compose_sums(composer);
  } else if (spec.collective == all_to_all) {
    compose_exchange(composer);
  } else {
    compose_blocks(composer);
  }
  for (const Step& step : composer.schedule.lanes[0]) {
    for (const Operand& operand : {step.from, step.with, step.into}) {
      if (operand.space != Space::scratch) continue;
      std::uint32_t& chunks = composer.schedule.scratch_chunks;
      chunks = std::max(chunks, operand.chunk + step.count);
    }
  }
  return composer;
}

/// What a rank's own steps cost.
Cost counted(const Composer& composer) {
  const Schedule& schedule = composer.schedule;
  const ChunkMap& chunks = schedule.chunks;
  Cost cost{.rounds = composer.rounds, .scratch_chunks = schedule.scratch_chunks};
  std::set<Rank> peers;
  for (const Step& step : schedule.lanes[0]) {
    ++cost.steps;
    for (const Rank peer : {step.source, step.target}) {
      if (peer != kNoRank) peers.insert(peer);
    }
    if (step.sends()) cost.sent += step.count;
    if (step.receives()) cost.received += step.count;
    if (step.with.present()) cost.reduced += step.count;
    if (step.sends() || step.receives()) {
      cost.message_chunks = std::max(cost.message_chunks, step.count);
    }
  }
  cost.peers = static_cast<std::uint32_t>(peers.size());
  cost.chunks = std::max({1U, chunks.chunks(Space::input), chunks.chunks(Space::output)});
  return cost;
}

/// The phases' costs do not add up to that of the busiest rank, which need not be the same in all
/// of them: so it is counted.
Cost cost(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout) {
  const Rank ranks = spec.ranks;
  std::set<Rank> looked_at{spec.root, ranks - 1};
  const Rank step = ranks <= kEveryRank ? 1 : ranks / kSample;
  for (Rank rank = 0; rank < ranks; rank += step) looked_at.insert(rank);
  Cost most;
  for (const Rank rank : looked_at) {
    const Cost one = counted(composed(how, spec, layout, rank));
    most.rounds = std::max(most.rounds, one.rounds);
    most.sent = std::max(most.sent, one.sent);
    most.received = std::max(most.received, one.received);
    most.reduced = std::max(most.reduced, one.reduced);
    most.steps = std::max(most.steps, one.steps);
    most.scratch_chunks = std::max(most.scratch_chunks, one.scratch_chunks);
    most.message_chunks = std::max(most.message_chunks, one.message_chunks);
    most.peers = std::max(most.peers, one.peers);
    most.chunks = std::max(most.chunks, one.chunks);
  }
  for (double* bytes : {&most.sent, &most.received, &most.reduced}) *bytes /= most.chunks;
  return most;
}

// Between hosts, in the order of Collective.
constexpr Hierarchy kOfRings{
    "hierarchical_ring",
    false,
    false,
    &kRing,
    &kRing,
    {&kRing, &kChain, &kChain, &kRing, &kRing, &kPairwise, &kLinear, &kLinear}};
constexpr Hierarchy kOfHalving{"hierarchical_halving",
                               false,
                               true,
                               &kOneShot,
                               &kOneShot,
                               {&kCirculant, &kRecursiveHalvingDoubling, &kScatterAllgather,
                                &kBruck, &kCirculant, &kLinear, &kBinomial, &kBinomial}};
constexpr Hierarchy kOfTrees{
    "hierarchical_tree",
    true,
    true,
    nullptr,
    nullptr,
    {&kRecursiveDoubling, &kBinomial, &kBinomial, &kRecursiveDoubling, &kCirculant, nullptr,
     &kBinomial, &kBinomial, nullptr, nullptr, &kDissemination}};

template <const Hierarchy& kHow>
constexpr Algorithm algorithm(std::string_view sentence) {
  return {
      kHow.name, sentence,
      [](const CollectiveSpec& spec, const Layout& layout) { return supports(kHow, spec, layout); },
      [](const CollectiveSpec& spec, const Layout& layout) { return cost(kHow, spec, layout); },
      [](const CollectiveSpec& spec, const Layout& layout, Rank rank) {
        return composed(kHow, spec, layout, rank).schedule;
      }};
}

}  // namespace

constinit const Algorithm kHierarchicalRing =
    algorithm<kOfRings>("large messages, several hosts: each rail moves its part between them");
constinit const Algorithm kHierarchicalHalving = algorithm<kOfHalving>(
    "medium messages, several hosts: rails, few rounds inside and between hosts");
constinit const Algorithm kHierarchicalTree =
    algorithm<kOfTrees>("small messages, several hosts: one message per host and round");

}  // namespace coll
