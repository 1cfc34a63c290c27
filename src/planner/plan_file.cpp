// SPDX-License-Identifier: Apache-2.0
// Plans as lines of words, between the mark of their world and a hash of the line.
#include "planner/plan_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <deque>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/hash.hpp"
#include "planner/plan_cut.hpp"
#include "planner/prediction.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

/// The first line; other versions of the format have another number.
constexpr std::string_view kHead = "collectives plans 1", kHeadOfAny = "collectives plans ";

/// Hashes what plans depend on.
class Mark {
 public:
  void add(double value) { hash_.word(std::bit_cast<std::uint64_t>(value)); }
  template <class Number>
  requires std::is_integral_v<Number>
  void add(Number value) { hash_.word(static_cast<std::uint64_t>(value)); }
  template <class Each>
  void add(const std::vector<Each>& list) {
    add(list.size());
    for (const Each& each : list) add(each);
  }
  void add(std::string_view text) { hash_.text(text); }
  void add(const Layout& layout) {
    const auto& [host, numa, island, rail, members, rings, line] = layout;  // all that it has
    add(host);
    add(numa);
    add(island);
    add(rail);
    add(members);
    add(rings);
    add(line);
  }
  void add(PathCost CostConstants::*path) {
    constexpr std::array paths{&CostConstants::memory, &CostConstants::kernel, &CostConstants::rdma,
                               &CostConstants::network};
    add(std::find(paths.begin(), paths.end(), path) - paths.begin());
  }
  void add(CostConstants constants) {
    for (const CostGroup& group : cost_groups()) {
      for (const CostConstant& constant : group.constants) add(constant.of(constants));
    }
  }
  // Of worlds whose plans are kept, these are empty.
  void add(const std::shared_ptr<const Network>& /*network*/) {}
  void add(const Cut& /*cut*/) {}
  void add(const std::vector<TuningPoint>& /*tuning*/) {}

  [[nodiscard]] std::uint64_t value() const { return hash_.value(); }

 private:
  Fnv1a hash_;
};

template <class Number>
std::string text_of(Number value, int base = 10) {
  char text[32];
  std::to_chars_result end{};
  if constexpr (std::is_floating_point_v<Number>) {
    end = std::to_chars(text, text + sizeof text, value);  // as many digits as its bits need
  } else {
    end = std::to_chars(text, text + sizeof text, value, base);
  }
  return {text, end.ptr};
}

std::string hexadecimal(std::uint64_t value) {
  return text_of(value, 16);
}

/// Takes numbers off a line, and notes whether all were there and within their bounds.
struct Words {
  std::string_view rest;
  bool good = true;

  template <class Number>
  Number number(Number least, Number most) {
    Number value{};
    good = good && is_number(take_word(rest), value) && value >= least && value <= most;
    return good ? value : least;
  }
};

/// What follows the mark.
std::optional<std::pair<PlanKey, Plan>> read_plan(std::string_view line, const World& world) {
  const Rank ranks = world.layout.ranks();
  Words words{line};
  const std::optional<Collective> collective = find_collective(take_word(words.rest));
  PlanKey key;
  CollectiveSpec& spec = key.spec;
  spec.ranks = ranks;
  spec.root = words.number<Rank>(0, ranks - 1);
  spec.unequal = words.number(0, 1) == 1;
  spec.order = static_cast<SumOrder>(words.number(0, static_cast<int>(SumOrder::sided_tree)));
  key.size_class = words.number<std::uint32_t>(0, 63);
  const Algorithm* const algorithm = find_algorithm(take_word(words.rest));
  if (!words.good || !collective || algorithm == nullptr) return std::nullopt;
  spec.collective = *collective;
  if (!algorithm->serves(spec, world.layout)) return std::nullopt;
  Plan plan = plan_with(world, spec, *algorithm, {}, key.size_class);
  plan.lanes = words.number(1U, world.max_lanes);
  plan.slice_bytes =
      words.number(std::min(world.slot_bytes, plan.message_chunks * 64), world.slot_bytes);
  plan.loans = static_cast<Loans>(words.number(0, static_cast<int>(Loans::all)));
  plan.predicted_us = words.number(0.0, HUGE_VAL);
  plan.predicted_each_us = words.number(0.0, HUGE_VAL);
  if (!words.good || !take_word(words.rest).empty()) return std::nullopt;
  return std::pair(key, plan);
}

std::string with_hash(const std::string& line) {
  return line + " " + hexadecimal(Fnv1a().text(line).value());
}

/// The line without its hash; nothing if that is another line's.
std::optional<std::string_view> whole(std::string_view line) {
  const std::size_t end = line.rfind(' ');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = line.substr(0, end);
  if (line.substr(end + 1) != hexadecimal(Fnv1a().text(text).value())) return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::uint64_t> plan_mark(const World& world, const CollectiveSpec& spec,
                                       std::string_view build) {
  const bool free =
      !world.network && world.tuning.empty() && world.algorithm.empty() && world.cut == Cut{};
  const bool chosen = spec.ranks > 1 && spec.ranks == world.layout.ranks();
  if (!free || !chosen || !is_simulated(world, spec)) return std::nullopt;
  const CopyFactors factors = world.factors_in_plans(spec);
  Mark mark;
  mark.add(build);
  mark.add(factors.copy);
  mark.add(factors.fetch);
  std::apply([&](const auto&... inputs) { (mark.add(inputs), ...); }, world.plan_inputs());
  return mark.value();
}

std::string plan_line(std::uint64_t mark, const PlanKey& key, const Plan& plan) {
  const CollectiveSpec& spec = key.spec;
  std::string line = hexadecimal(mark);
  const auto add = [&](std::string_view word) { line.append(" ").append(word); };
  add(name_of(spec.collective));
  add(text_of(spec.root));
  add(text_of(static_cast<int>(spec.unequal)));
  add(text_of(static_cast<int>(spec.order)));
  add(text_of(key.size_class));
  add(plan.algorithm->name);
  add(text_of(plan.lanes));
  add(text_of(plan.slice_bytes));
  add(text_of(static_cast<int>(plan.loans)));
  add(text_of(plan.predicted_us));
  add(text_of(plan.predicted_each_us));
  return with_hash(line);
}

std::map<PlanKey, Plan> read_plans(std::string_view text, std::string_view build,
                                   const World& world) {
  std::map<PlanKey, Plan> plans;
  const auto mark_for = [&](Collective collective) {
    const auto mark = plan_mark(world, {collective, world.layout.ranks()}, build);
    return mark ? hexadecimal(*mark) : std::string();
  };
  const std::string copies = mark_for(Collective::broadcast);
  const std::string sums = mark_for(Collective::all_reduce);
  if (sums.empty() || take_line(text) != kHead) return plans;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::string_view mark = line.substr(0, line.find(' '));
    if (mark != copies && mark != sums) continue;
    const auto good = whole(line);
    const auto read = good ? read_plan(good->substr(mark.size()), world) : std::nullopt;
    if (!read) continue;
    const auto& [key, plan] = *read;
    if (mark == (reduces(key.spec.collective) ? sums : copies)) plans.insert_or_assign(key, plan);
  }
  return plans;
}

bool may_hold_plans(std::string_view text) {
  return text.empty() || text.starts_with(kHeadOfAny);
}

std::string add_plans(std::string_view text, const std::vector<std::string>& more) {
  std::deque<std::string_view> lines;
  std::unordered_set<std::string_view> known;
  const auto add_line = [&](std::string_view line) {
    if (!line.empty() && known.insert(line).second) lines.push_back(line);
  };
  if (take_line(text) == kHead) {
    while (!text.empty()) add_line(take_line(text));
  }
  for (const std::string& line : more) add_line(line);
  while (lines.size() > kMostKeptPlans) lines.pop_front();
  std::string all = std::string(kHead) + "\n";
  for (const std::string_view line : lines) all.append(line).append("\n");
  return all;
}

}  // namespace coll
