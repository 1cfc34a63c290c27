// SPDX-License-Identifier: Apache-2.0
// Proves that calls which are in flight together end.
#include "schedule/proof/verify_group.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/check.hpp"
#include "schedule/schedule_fault.hpp"

namespace coll {
namespace {

/// One direction of a connection.
struct ConnectionDirection {
  std::uint32_t connections = 0;
  std::size_t lane = 0;
  Rank from = 0, to = 0;
  friend auto operator<=>(const ConnectionDirection&, const ConnectionDirection&) = default;
};

using Served = std::vector<std::uint32_t>;  ///< calls, in their order

/// The directions that one rank's part of a call sends or receives in.
std::set<ConnectionDirection> directions_of(const Schedule& schedule, std::uint32_t connections) {
  std::set<ConnectionDirection> used;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (const Step& step : schedule.lanes[lane]) {
      if (step.sends()) used.insert({connections, lane, schedule.rank, step.target});
      if (step.receives()) used.insert({connections, lane, step.source, schedule.rank});
    }
  }
  return used;
}

std::string call_text(std::span<const GroupedSchedules> calls, std::uint32_t call) {
  const CollectiveSpec& spec = calls[call].schedules.front().spec;
  return "call " + std::to_string(call) + " (" + std::string(name_of(spec.collective)) + ")";
}

/// What a rank serves in each direction that it is an end of.
Result<std::map<ConnectionDirection, Served>> served_by(Rank rank,
                                                        std::span<const GroupedSchedules> calls,
                                                        const Served& issued) {
  std::map<ConnectionDirection, Served> served;
  std::vector<bool> seen(calls.size());
  for (const std::uint32_t call : issued) {
    if (call >= calls.size() || seen[call]) {
      return fault(rank, "issues call " + std::to_string(call) +
                             (call >= calls.size() ? ", which there is not" : " twice"));
    }
    seen[call] = true;
    const Schedule& part = calls[call].schedules[static_cast<std::size_t>(rank)];
    for (const ConnectionDirection& direction : directions_of(part, calls[call].connections)) {
      served[direction].push_back(call);
    }
  }
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (!seen[call] && !calls[call].schedules[static_cast<std::size_t>(rank)].lanes.empty()) {
      return fault(rank, "does not issue " + call_text(calls, call) + ", which has lanes for it");
    }
  }
  return served;
}

/// (a): what both ends serve in each direction.
Status check_ends(std::span<const GroupedSchedules> calls,
                  std::span<const std::map<ConnectionDirection, Served>> served) {
  const Served nothing;
  const auto at = [&](Rank rank, const ConnectionDirection& direction) -> const Served& {
    const auto& of_rank = served[static_cast<std::size_t>(rank)];
    const auto found = of_rank.find(direction);
    return found == of_rank.end() ? nothing : found->second;
  };
  const auto text = [&](const Served& list, std::size_t index) {
    return index < list.size() ? call_text(calls, list[index]) : std::string("no call");
  };
  for (const auto& of_rank : served) {
    for (const auto& entry : of_rank) {
      const ConnectionDirection& direction = entry.first;
      const Served& sent = at(direction.from, direction);
      const Served& received = at(direction.to, direction);
      const auto first = std::ranges::mismatch(sent, received).in1 - sent.begin();
      const auto index = static_cast<std::size_t>(first);
      if (index == sent.size() && index == received.size()) continue;
      return fault(direction.from,
                   "serves " + text(sent, index) + " as number " + std::to_string(index) +
                       " on lane " + std::to_string(direction.lane) + " to rank " +
                       std::to_string(direction.to) + ", which serves " + text(received, index));
    }
  }
  return {};
}

/// (b): calls that no other call must end before are taken away, again and again (Kahn 1962).
Status check_waits(std::span<const GroupedSchedules> calls,
                   std::span<const std::map<ConnectionDirection, Served>> served) {
  std::vector<std::set<std::uint32_t>> later(calls.size());
  for (const auto& of_rank : served) {
    for (const auto& entry : of_rank) {
      const Served& list = entry.second;
      for (std::size_t i = 1; i < list.size(); ++i) later[list[i - 1]].insert(list[i]);
    }
  }
  std::vector<std::size_t> waits_for(calls.size());
  for (const auto& others : later) {
    for (const std::uint32_t other : others) ++waits_for[other];
  }
  std::vector<std::uint32_t> ended;
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (waits_for[call] == 0) ended.push_back(call);
  }
  for (std::size_t i = 0; i < ended.size(); ++i) {
    for (const std::uint32_t other : later[ended[i]]) {
      if (--waits_for[other] == 0) ended.push_back(other);
    }
  }
  if (ended.size() == calls.size()) return {};
  std::string stuck;
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (waits_for[call] != 0) stuck += (stuck.empty() ? "" : ", ") + call_text(calls, call);
  }
  return failed(Code::internal, "calls wait for each other, on different ranks: " + stuck,
                "issue them in one order on all ranks");
}

}  // namespace

Status verify_group(std::span<const GroupedSchedules> calls,
                    std::span<const std::vector<std::uint32_t>> issued) {
  for (const GroupedSchedules& call : calls) {
    COLL_CHECK(call.schedules.size() == issued.size(), "a call has a schedule for each rank");
  }
  std::vector<std::map<ConnectionDirection, Served>> served;
  for (std::size_t rank = 0; rank < issued.size(); ++rank) {
    COLL_ASSIGN(served.emplace_back(), served_by(static_cast<Rank>(rank), calls, issued[rank]));
  }
  COLL_TRY(check_ends(calls, served));
  return check_waits(calls, served);
}

}  // namespace coll
