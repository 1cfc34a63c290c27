// SPDX-License-Identifier: Apache-2.0
// The kinds of damage.
#include "mutation.hpp"

#include <utility>

namespace coll {
namespace {

using Steps = std::vector<Step>;
using Change = std::function<void(Steps&, std::size_t)>;

Change changed(std::function<void(Step&)> change) {
  return [change = std::move(change)](Steps& steps, std::size_t step) { change(steps[step]); };
}

void add_changes(std::vector<std::pair<std::string, Change>>& list, const Step& step, Rank ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (step.receives() && step.source != rank) {
      list.emplace_back("redirect source", changed([rank](Step& s) { s.source = rank; }));
    }
    if (step.sends() && step.target != rank) {
      list.emplace_back("redirect target", changed([rank](Step& s) { s.target = rank; }));
    }
  }
  for (Operand Step::*const which : {&Step::from, &Step::with, &Step::into}) {
    if (!(step.*which).present()) continue;
    for (const std::uint32_t by : {1U, 2U, 0U - 1U}) {
      list.emplace_back("change chunk", changed([which, by](Step& s) { (s.*which).chunk += by; }));
    }
    for (const Space space : {Space::none, Space::input, Space::output, Space::scratch}) {
      if (space == (step.*which).space) continue;
      list.emplace_back("change space",
                        changed([which, space](Step& s) { (s.*which).space = space; }));
    }
  }
  list.emplace_back("change count", changed([](Step& s) { ++s.count; }));
  if (step.count > 0)
    list.emplace_back("change count", changed([](Step& s) { s.count -= s.count > 0 ? 1 : 0; }));
  list.emplace_back("flip finish", changed([](Step& s) { s.finish = !s.finish; }));
  if (step.wait_lane >= 0) {
    list.emplace_back("drop wait", changed([](Step& s) { s.wait_lane = -1; }));
    list.emplace_back("earlier wait", changed([](Step& s) { --s.wait_step; }));
  }
}

}  // namespace

std::vector<Mutation> mutations_of(const samples::Set& set) {
  std::vector<Mutation> mutations;
  for (std::size_t rank = 0; rank < set.size(); ++rank) {
    for (std::size_t lane = 0; lane < set[rank].lanes.size(); ++lane) {
      const Lane& steps = set[rank].lanes[lane];
      for (std::size_t step = 0; step < steps.size(); ++step) {
        std::vector<std::pair<std::string, Change>> changes;
        changes.emplace_back("drop", [](Steps& l, std::size_t i) {
          l.erase(l.begin() + static_cast<std::ptrdiff_t>(i));
        });
        changes.emplace_back("duplicate", [](Steps& l, std::size_t i) {
          const Step copy = l[i];
          l.insert(l.begin() + static_cast<std::ptrdiff_t>(i), copy);
        });
        if (step + 1 < steps.size()) {
          changes.emplace_back("swap", [](Steps& l, std::size_t i) {
            if (i + 1 < l.size()) std::swap(l[i], l[i + 1]);
          });
        }
        add_changes(changes, steps[step], static_cast<Rank>(set.size()));
        for (auto& [kind, change] : changes) {
          mutations.push_back({kind, rank, lane, step, std::move(change)});
        }
      }
    }
  }
  return mutations;
}

}  // namespace coll
