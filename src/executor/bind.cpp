// SPDX-License-Identifier: Apache-2.0
// From a schedule's symbols to a program's indices.
#include <algorithm>
#include <span>
#include <vector>

#include "executor/call_turns.hpp"
#include "executor/lending.hpp"
#include "executor/program.hpp"
#include "executor/streaming.hpp"
#include "schedule/fan_out.hpp"

namespace coll {
namespace {

constexpr std::uint32_t kMost = 0xfffe;

bool same_part(const Operand& a, const Operand& b, std::uint32_t parts) {
  return !a.present() || !b.present() || a.chunk % parts == b.chunk % parts;
}

BoundOperand split(const Operand& operand, std::uint32_t parts) {
  return {static_cast<std::uint16_t>(operand.chunk / parts),
          static_cast<std::uint16_t>(operand.chunk % parts)};
}

Status check_size(const Schedule& schedule) {
  std::size_t widest =
      std::max({schedule.chunks.input_blocks, schedule.chunks.output_blocks, schedule.chunks.parts,
                schedule.scratch_chunks / schedule.chunks.parts});
  std::size_t steps = 0;
  for (const Lane& lane : schedule.lanes) {
    steps = std::max(steps, lane.size());
    for (const Step& step : lane) widest = std::max<std::size_t>(widest, step.count);
  }
  const bool waits_fit =
      schedule.lanes.size() == 1 || (steps < kMost && schedule.lanes.size() < 0xff);
  if (widest < kMost && waits_fit) return {};
  return failed(Code::unsupported,
                "the schedule of " + schedule.algorithm + " is too large to run");
}

/// Marks the last of a lane's steps that uses each of the things that calls take turns on.
void mark_last_uses(std::span<BoundStep> steps, std::size_t connections) {
  std::vector<bool> seen(LaneTurns::count(connections));
  const auto last = [&](bool uses, std::size_t turn) {
    const bool is_last = uses && !seen[turn];
    if (is_last) seen[turn] = true;
    return is_last;
  };
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    step->last_send = step->sends && last(true, LaneTurns::sending(step->target));
    step->last_receive = step->receives && last(true, LaneTurns::receiving(step->source));
    step->last_scratch = last(step->uses_scratch, LaneTurns::scratch(connections));
    step->last_stage = last(step->stage != BoundStep::Stage::none, LaneTurns::places(connections));
  }
}

/// What is complete is copied to where it belongs; anything else is combined there.
Fetch fetch_of(const CollectiveSpec& spec, Loans loans, const Loan& loan) {
  if (loans == Loans::if_faster && loan.complete != reduces(spec.collective))
    return loan.complete ? Fetch::copied : Fetch::if_faster;
  return loans == Loans::all && loan.complete ? Fetch::always : Fetch::never;
}

BoundStep::Stage stage_of(const FanOut& fan_out) {
  if (fan_out.readers == 0) return BoundStep::Stage::none;
  return fan_out.first ? BoundStep::Stage::first : BoundStep::Stage::again;
}

}  // namespace

BoundStep bind_step(const Step& step, std::uint32_t parts, std::uint16_t source,
                    std::uint16_t target) {
  COLL_CHECK(same_part(step.from, step.with, parts) && same_part(step.from, step.into, parts) &&
                 same_part(step.with, step.into, parts),
             "a step's operands are chunks of the same length");
  BoundStep bound;
  bound.from_space = step.from.space;
  bound.with_space = step.with.space;
  bound.into_space = step.into.space;
  bound.uses_scratch = step.from.space == Space::scratch || step.with.space == Space::scratch ||
                       step.into.space == Space::scratch;
  bound.from = split(step.from, parts);
  bound.with = split(step.with, parts);
  bound.into = split(step.into, parts);
  // Chunks of a message are as long as the part they are of; scratch chunk s stands for part s %
  // parts.
  bound.length = split(step.named(), parts);
  bound.finish = step.finish;
  bound.swapped = step.swapped;
  bound.sends = step.sends();
  bound.receives = step.receives();
  bound.source = source;
  bound.target = target;
  bound.count = static_cast<std::uint16_t>(step.count);
  if (step.wait_lane >= 0) {
    bound.wait_lane = static_cast<std::uint8_t>(step.wait_lane);
    bound.wait_step = static_cast<std::uint16_t>(step.wait_step);
  }
  if (step.sends() && !step.receives() && !step.with.present()) {
    bound.kind = BoundStep::Kind::send;
  } else if (step.receives() && !step.sends() && !step.with.present()) {
    bound.kind = BoundStep::Kind::receive;
  }
  return bound;
}

std::vector<PeerLane> peers_of(const Schedule& schedule, std::uint32_t copies) {
  std::vector<PeerLane> pairs;
  const auto lanes = static_cast<std::uint32_t>(schedule.lanes.size());
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::vector<Rank> peers;
    for (const Step& step : schedule.lanes[lane]) {
      if (step.receives()) peers.push_back(step.source);
      if (step.sends()) peers.push_back(step.target);
    }
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    for (std::uint32_t copy = 0; copy < copies; ++copy) {
      for (const Rank peer : peers) pairs.push_back({peer, copy * lanes + lane});
    }
  }
  return pairs;
}

Status bind_steps(Program& program, const Schedule& schedule, const ProgramShape& shape,
                  const ConnectionSource& connection) {
  COLL_TRY(check_size(schedule));
  program.chunks = schedule.chunks;
  program.ranks = schedule.spec.ranks;
  program.unequal = schedule.spec.unequal;
  program.shape = shape;
  const std::uint32_t copies = shape.copies;

  // Connections of each lane, as peers in ascending order; a step holds the index into its lane's
  // list.
  const auto lanes = static_cast<std::uint32_t>(schedule.lanes.size());
  const std::vector<PeerLane> pairs = peers_of(schedule, copies);
  std::vector<std::vector<Rank>> peers(static_cast<std::size_t>(lanes) * copies);
  for (const PeerLane& pair : pairs) peers[pair.lane].push_back(pair.peer);
  if (pairs.size() >= kMost) {
    return failed(Code::unsupported,
                  "the schedule of " + schedule.algorithm + " has too many peers");
  }
  std::vector<std::size_t> first_connection;
  for (std::uint32_t lane = 0; lane < lanes * copies; ++lane) {
    first_connection.push_back(program.connections.size());
    for (const Rank peer : peers[lane]) {
      Connection* opened = connection(peer, lane);
      COLL_CHECK(opened != nullptr, "connections are opened before a program is bound to them");
      program.connections.push_back(opened);
      program.lendings.push_back(opened->lending());
      ProgressSource* const source = opened->progress_source();
      if (source != nullptr &&
          std::ranges::find(program.sources, source) == program.sources.end()) {
        program.sources.push_back(source);
        program.needs_progress = true;
      }
    }
  }

  const std::vector<std::vector<Loan>> loans = find_loans(schedule);
  const std::vector<std::vector<BoundStep::When>> streams = find_streams(schedule);
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  std::vector<std::uint32_t> readers(lanes);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const auto index_of = [&](Rank peer) {
      if (peer == kNoRank) return BoundStep::kNone;
      const auto at = std::lower_bound(peers[lane].begin(), peers[lane].end(), peer);
      return static_cast<std::uint16_t>(at - peers[lane].begin());
    };
    const std::size_t begin = program.steps.size();
    const std::vector<FanOut> fan_out = fan_outs(schedule.lanes[lane]);
    for (const Step& step : schedule.lanes[lane]) {
      program.steps.push_back(
          bind_step(step, schedule.chunks.parts, index_of(step.source), index_of(step.target)));
      const std::size_t index = program.steps.size() - 1 - begin;
      const Loan& loan = loans[lane][index];
      program.steps.back().stream = streams[lane][index];
      program.steps.back().stage = stage_of(fan_out[index]);
      readers[lane] = std::max(readers[lane], fan_out[index].readers);
      if (shape.loans != Loans::none) program.steps.back().lend = loan.lend;
      program.steps.back().fetch = fetch_of(schedule.spec, shape.loans, loan);
    }
    mark_last_uses(std::span(program.steps).subspan(begin), peers[lane].size());
    ranges.emplace_back(begin, program.steps.size());
  }
  const std::size_t chunk_bytes =
      std::max<std::size_t>(shape.slice_bytes / shape.message_chunks, kLongestElement);
  program.scratch_bytes = (chunk_bytes * schedule.scratch_chunks + 63) / 64 * 64;
  program.lanes.resize(static_cast<std::size_t>(lanes) * copies);
  program.places.resize(program.lanes.size());
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      const std::size_t at = static_cast<std::size_t>(copy) * lanes + lane;
      Program::Lane& bound = program.lanes[at];
      bound.begin = program.steps.data() + ranges[lane].first;
      bound.end = program.steps.data() + ranges[lane].second;
      bound.connections =
          std::span(program.connections).subspan(first_connection[at], peers[at].size());
      bound.lendings = program.lendings.data() + first_connection[at];
      bound.first_sibling = copy * lanes;
      bound.first_pass = copy;
      program.places[at].readers = readers[lane];
    }
  }
  return {};
}

void give_scratch(Program& program, std::byte* begin) {
  for (Program::Lane& lane : program.lanes) {
    lane.scratch = begin;
    begin += program.scratch_bytes;
  }
}

void bind_turns(Program& program) {
  program.own_turns.resize(2 * program.lanes.size());
  std::size_t turns_of_all = 0;
  for (const Program::Lane& lane : program.lanes) {
    turns_of_all += LaneTurns::count(lane.connections.size());
  }
  program.lane_turns.assign(turns_of_all, nullptr);
  std::span<CallTurns*> rest = program.lane_turns;
  for (std::size_t i = 0; i < program.lanes.size(); ++i) {
    Program::Lane& lane = program.lanes[i];
    const std::size_t connections = lane.connections.size();
    const std::span<CallTurns*> turns = rest.first(LaneTurns::count(connections));
    rest = rest.subspan(turns.size());
    bool has_scratch = false;
    for (const BoundStep* step = lane.begin; step != lane.end; ++step) {
      if (step->sends) {
        turns[LaneTurns::sending(step->target)] = &lane.connections[step->target]->sending;
      }
      if (step->receives) {
        turns[LaneTurns::receiving(step->source)] = &lane.connections[step->source]->receiving;
      }
      has_scratch = has_scratch || step->uses_scratch;
    }
    if (has_scratch) turns[LaneTurns::scratch(connections)] = &program.own_turns[2 * i];
    if (program.places[i].begin != nullptr) {
      turns[LaneTurns::places(connections)] = &program.own_turns[2 * i + 1];
    }
    lane.turns = turns;
  }
}

/// Finds the messages of each lane that peers may write to their places.
void bind_landings(Program& program, const Schedule& schedule) {
  const auto lands = [](Connection* one) { return one->landing() != nullptr; };
  if (std::ranges::none_of(program.connections, lands)) return;
  const std::vector<std::vector<MayLand>> may_land = find_landings(schedule);
  // Then what a rank only receives is a sum of the other one's.
  const bool computed =
      schedule.spec.collective == Collective::all_reduce && schedule.spec.ranks == 2;
  std::vector<std::size_t> first;
  for (std::size_t at = 0; at < program.lanes.size(); ++at) {
    Program::Lane& lane = program.lanes[at];
    first.push_back(program.expected.size());
    std::vector<std::uint32_t> received(lane.connections.size());
    for (const BoundStep* step = lane.begin; step != lane.end; ++step) {
      if (!step->receives) continue;
      const std::uint32_t nth = received[step->source]++;
      Landing* const landing = lane.connections[step->source]->landing();
      const auto [when, part_first] =
          may_land[at % schedule.lanes.size()][static_cast<std::size_t>(step - lane.begin)];
      if (landing == nullptr || (landing->only_computed() && !computed)) continue;
      if (when != BoundStep::When::never)
        program.expected.push_back({landing, step, nth, 0, when, part_first});
    }
    for (std::size_t i = first.back(); i < program.expected.size(); ++i) {
      Expected& one = program.expected[i];
      one.of = received[one.step->source];
      lane.told_passes = std::max(lane.told_passes, (one.landing->ahead() + one.of - 1) / one.of);
    }
  }
  first.push_back(program.expected.size());
  for (std::size_t at = 0; at < program.lanes.size(); ++at)
    program.lanes[at].expected =
        std::span(program.expected).subspan(first[at], first[at + 1] - first[at]);
}

Result<std::unique_ptr<Program>> bind(const Schedule& schedule, const ProgramShape& shape,
                                      const ConnectionSource& connection, ScratchPool& pool) {
  auto program = std::make_unique<Program>();
  COLL_TRY(bind_steps(*program, schedule, shape, connection));
  // Not even touched: of some schedules' scratch a rank uses a small part.
  if (program->scratch_bytes > 0) {
    program->scratch =
        pool.take(program->scratch_bytes * program->lanes.size(), ScratchUse::program);
    give_scratch(*program, program->scratch.data());
  }
  give_places(*program, pool);
  if (shape.loans != Loans::none) bind_landings(*program, schedule);
  bind_turns(*program);
  return program;
}

}  // namespace coll
