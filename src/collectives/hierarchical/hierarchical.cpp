// SPDX-License-Identifier: Apache-2.0
// Hierarchical algorithms: composed of algorithms inside hosts and between hosts.
//
// Algorithm: hierarchical_ring, hierarchical_halving, hierarchical_tree
// Idea: there are as many rails as the smallest host has ranks, and on each rail one rank of every
//   host (hierarchical_tree: one rail). Data is first combined or collected inside hosts, then
//   moved between hosts on all rails at once, then distributed inside hosts. all_reduce:
//   reduce-scatter inside, all-reduce of a part of the data on each rail, all-gather inside.
//   reduce: the same with a gather at the end; broadcast: scatter, broadcast, all-gather.
//   all_gather and gather: first on rails, then from rail to rail; reduce_scatter and scatter: the
//   other way round. all_to_all: a rank sends all its data for another host as one message to one
//   rank there, which distributes it. Ranks of larger hosts without a rail of their own give their
//   data to a rank that has one, and get their results from it, by a binomial tree.
//   hierarchical_ring: ring inside and between hosts; for one root, chain for whole data and linear
//   for blocks; pairwise for all_to_all. hierarchical_halving: one_shot inside; circulant,
//   recursive_halving_doubling, scatter_allgather, bruck, binomial, linear between hosts.
//   hierarchical_tree: binomial inside; recursive_doubling, circulant, binomial, dissemination
//   between hosts.
// Cost: counted in the built schedules; rounds are the sum of the phases'.
// Wins: hierarchical_ring: large messages; hierarchical_halving: medium messages, and many hosts;
//   hierarchical_tree: small messages. Only with several hosts, at least one of which has several
//   ranks. On one host its islands take the place of hosts (rank_groups.hpp): GPUs with links among
//   them.
// Source: Kielmann et al.: MagPIe: MPI's collective communication operations for clustered wide
//   area systems (PPoPP 1999); Graham et al.: Cheetah: a framework for scalable hierarchical
//   collective operations (CCGrid 2011); rails: Cho et al.: BlueConnect: decomposing all-reduce for
//   deep learning on heterogeneous network hierarchy (SysML 2019).
#include "collectives/hierarchical/hierarchical.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "collectives/hierarchical/rank_groups.hpp"
#include "collectives/patterns.hpp"

namespace coll {

Composer::Composer(const Hierarchy& hierarchy, const CollectiveSpec& of, const Layout& layout,
                   Rank rank)
    : how(hierarchy),
      spec(of),
      grid(layout, hierarchy.leaders ? 1 : 0, has_root(of.collective) ? of.root : kNoRank, rank) {
  schedule.rank = rank;
}

void Composer::start(std::uint32_t parts) {
  schedule = start_schedule(std::string(how.name), spec, schedule.rank, parts);
}

std::uint32_t Composer::room(std::uint32_t chunks) {
  return std::exchange(room_, room_ + chunks);
}

void Composer::count(const Algorithm& algorithm, const CollectiveSpec& of, double times) {
  if (of.ranks > 1) phases_.push_back({&algorithm, of, times});
}

double Composer::rounds() const {
  double sum = 0;
  for (const auto& [algorithm, of, times] : phases_) {
    sum += times * algorithm->cost(of, Layout::flat(of.ranks)).rounds;
  }
  return sum;
}

void Composer::repeat(Rank first, Rank end, const std::function<void(Rank)>& body) {
  if (grid.even) return lane().repeat(first, end, body);
  for (Rank k = first; k < end; ++k) body(k);
}

void Composer::run(const Schedule& part, std::span<const Rank> group, Embedding embedding,
                   bool joins) {
  embedding.ranks = group;
  embedding.even = grid.even;
  embedding.joins = joins;
  embed(part, embedding, schedule.lanes[0]);
}

Schedule Composer::line_part() const {
  const Algorithm& algorithm = *how.line[static_cast<int>(spec.collective)];
  const Rank root = has_root(spec.collective) ? grid.root_host : 0;
  return algorithm.build({spec.collective, grid.hosts, root}, Layout::flat(grid.hosts), grid.host);
}

void Composer::on_line(const Schedule& part, Embedding embedding) {
  count(*how.line[static_cast<int>(spec.collective)], part.spec);
  if (grid.owns()) run(part, grid.line(), std::move(embedding), true);
}

void Composer::in_row(const Algorithm& algorithm, Collective collective, Rank times,
                      const std::function<Embedding(std::uint32_t)>& embedding) {
  const Rank root = has_root(collective) ? grid.root_rail : 0;
  const CollectiveSpec of{collective, grid.rails, root};
  count(algorithm, of, times);
  if (!grid.owns() || grid.rails == 1) return;
  if (has_root(collective) && grid.host != grid.root_host) return;
  const std::vector<Rank> row = grid.row();
  const Schedule part = algorithm.build(of, Layout::flat(grid.rails), grid.rail);
  if (times == 1) return run(part, row, embedding(0), true);
  repeat(0, times, [&](Rank k) { run(part, row, embedding(index_of(k)), false); });
}

void Composer::in_row(const Algorithm& algorithm, Collective collective, Embedding embedding) {
  in_row(algorithm, collective, 1, [&](std::uint32_t) { return embedding; });
}

void Composer::in_team(Collective collective, Embedding embedding) {
  count(kBinomial, {collective, grid.largest_team, 0});
  const std::vector<Rank> team = grid.team();
  const auto ranks = static_cast<Rank>(team.size());
  if (ranks == 1) return;
  run(kBinomial.build({collective, ranks, grid.owner()}, Layout::flat(ranks), grid.turn), team,
      std::move(embedding), true);
}

Schedule Composer::host_part(const Algorithm& algorithm, Collective collective) const {
  const auto ranks = static_cast<Rank>(grid.members(grid.host).size());
  return (ranks == 1 ? kLocal : algorithm)
      .build({collective, ranks, 0}, Layout::flat(ranks), grid.place());
}

void Composer::in_host(const Schedule& part, Embedding embedding) {
  run(part, grid.members(grid.host), std::move(embedding), false);
}

namespace {

using enum Collective;

constexpr Rank kEveryRank = 64;  ///< up to here the busiest rank is looked for among all

bool supports(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout) {
  return how.line[static_cast<int>(spec.collective)] != nullptr && layout.hosts() >= 2 &&
         layout.hosts() < layout.ranks() && spec.ranks == layout.ranks();
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
  std::uint32_t& scratch_chunks = composer.schedule.scratch_chunks;
  const auto use = [&](const Step& step) {
    for (const Operand& operand : {step.from, step.with, step.into}) {
      if (operand.space != Space::scratch) continue;
      scratch_chunks = std::max(scratch_chunks, operand.chunk + step.count);
    }
  };
  for (const Lane::Repeat& repeat : composer.schedule.lanes[0].repeats()) {
    for (std::size_t i = 0; i < repeat.body.size(); ++i) {  // the largest is in the first or last
      use(repeat.at(i));
      use(repeat.at(repeat.size() - 1 - i));
    }
  }
  return composer;
}

/// What a rank's own steps cost, in chunks.
Cost counted(const Composer& composer) {
  const Schedule& schedule = composer.schedule;
  const ChunkMap& chunks = schedule.chunks;
  Cost cost{.scratch_chunks = schedule.scratch_chunks};
  std::set<Rank> peers;
  for (const Lane::Repeat& repeat : schedule.lanes[0].repeats()) {
    for (std::size_t i = 0; i < repeat.body.size(); ++i) {
      const Step& step = repeat.body[i];
      const double moved = static_cast<double>(step.count) * repeat.times;
      if (step.sends()) cost.sent += moved;
      if (step.receives()) cost.received += moved;
      if (step.with.present()) cost.reduced += moved;
      if (step.sends() || step.receives()) {
        cost.message_chunks = std::max(cost.message_chunks, step.count);
      }
      const bool same_peers =
          repeat.times == 1 || (repeat.strides[i].source == 0 && repeat.strides[i].target == 0);
      for (std::size_t at = i; at < (same_peers ? i + 1 : repeat.size());
           at += repeat.body.size()) {
        const Step one = repeat.at(at);
        if (one.receives()) peers.insert(one.source);
        if (one.sends()) peers.insert(one.target);
      }
    }
  }
  cost.steps = static_cast<std::uint32_t>(schedule.lanes[0].size());
  cost.peers = static_cast<std::uint32_t>(peers.size());
  cost.chunks = std::max({1U, chunks.chunks(Space::input), chunks.chunks(Space::output)});
  return cost;
}

/// The cost is counted: the phases' costs do not add up, because each phase may have another
/// busiest rank. Among many ranks only the ranks of some hosts are counted: the first hosts, and
/// the hosts around the root's and opposite to it. Other ranks may have a few steps more.
Cost cost(const Hierarchy& how, const CollectiveSpec& spec, const Layout& layout) {
  const Rank ranks = spec.ranks;
  std::set<Rank> looked_at{spec.root, ranks - 1};
  if (ranks <= kEveryRank) {
    for (Rank rank = 0; rank < ranks; ++rank) looked_at.insert(rank);
  } else {
    const Rank hosts = layout.hosts();
    const Rank root_host = layout.host[static_cast<std::size_t>(spec.root)];
    for (const Rank from : {Rank{0}, root_host, root_host + hosts / 2, root_host - 4}) {
      for (Rank i = 0; i < 4; ++i) {
        const std::vector<Rank>& members = layout.members_of(wrapped(from + i, hosts));
        looked_at.insert({members[0], members[members.size() / 2], members.back()});
      }
    }
  }
  Cost most;
  for (const Rank rank : looked_at) {
    const Composer composer = composed(how, spec, layout, rank);
    Cost one = counted(composer);
    one.rounds = composer.rounds();  // not every rank knows of all phases
    most.raise_to(one);
  }
  most.divide_by_chunks();
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
  return {kHow.name, sentence,
          [](const CollectiveSpec& spec, const Layout& layout) {
            return on_groups(layout,
                             [&](const Layout& hosts) { return supports(kHow, spec, hosts); });
          },
          [](const CollectiveSpec& spec, const Layout& layout) {
            return on_groups(layout, [&](const Layout& hosts) { return cost(kHow, spec, hosts); });
          },
          [](const CollectiveSpec& spec, const Layout& layout, Rank rank) {
            return on_groups(layout, [&](const Layout& hosts) {
              return composed(kHow, spec, hosts, rank).schedule;
            });
          }};
}

}  // namespace

constinit const Algorithm kHierarchicalRing = algorithm<kOfRings>(
    "large messages, several hosts or islands: each rail moves its part between them");
constinit const Algorithm kHierarchicalHalving = algorithm<kOfHalving>(
    "medium messages, several hosts or islands: rails, few rounds inside and between them");
constinit const Algorithm kHierarchicalTree =
    algorithm<kOfTrees>("small messages, several hosts or islands: one message per host and round");

}  // namespace coll
