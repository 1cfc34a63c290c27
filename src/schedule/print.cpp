// SPDX-License-Identifier: Apache-2.0
// Prints schedules as text.
#include "schedule/print.hpp"

#include <algorithm>
#include <array>

namespace coll {
namespace {

std::string_view name_of(Space space) {
  constexpr std::array<std::string_view, 4> names{"nothing", "input", "output", "scratch"};
  return names[static_cast<std::size_t>(space)];
}

std::string padded(std::string text, std::size_t width, bool right = false) {
  if (text.size() < width) text.insert(right ? 0 : text.size(), width - text.size(), ' ');
  return text;
}

}  // namespace

std::string print(const Operand& operand, std::uint32_t count) {
  std::string text(name_of(operand.space));
  if (!operand.present()) return text;
  text += ' ' + std::to_string(operand.chunk);
  if (count > 1) text += ".." + std::to_string(std::uint64_t{operand.chunk} + count - 1);
  return text;
}

std::string_view kind_of(const Step& step) {
  if (step.count == 0) {
    if (step.receives()) return step.sends() ? "await_signal" : "await";
    return step.sends() ? "signal" : "nothing";
  }
  // [receives][combines][keeps][sends]
  constexpr std::array<std::string_view, 16> kinds{"nothing",        "send",
                                                   "copy",           "copy_send",
                                                   "reduce",         "reduce_send",
                                                   "reduce",         "reduce_copy_send",
                                                   "receive",        "forward",
                                                   "receive",        "receive_send",
                                                   "receive_reduce", "receive_reduce_send",
                                                   "receive_reduce", "receive_reduce_copy_send"};
  return kinds[(step.receives() ? 8U : 0U) + (step.with.present() ? 4U : 0U) +
               (step.into.present() ? 2U : 0U) + (step.sends() ? 1U : 0U)];
}

std::string print(const Step& step) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (step.receives()) add("from rank " + std::to_string(step.source));
  if (step.from.present()) add("from " + print(step.from, step.count));
  if (step.with.present()) add("with " + print(step.with, step.count));
  if (step.into.present()) add("into " + print(step.into, step.count));
  if (step.sends()) add("to rank " + std::to_string(step.target));
  if (step.swapped) add("swapped");
  if (step.finish) add("finish");
  if (step.wait_lane >= 0) {
    add("after lane " + std::to_string(step.wait_lane) + " step " + std::to_string(step.wait_step));
  }
  return text;
}

std::string print(const Schedule& schedule) {
  const CollectiveSpec& spec = schedule.spec;
  std::string text = schedule.algorithm + ' ' + std::string(name_of(spec.collective));
  if (has_root(spec.collective)) text += " root " + std::to_string(spec.root);
  text += ", rank " + std::to_string(schedule.rank) + " of " + std::to_string(spec.ranks) + ": " +
          std::to_string(schedule.chunks.chunks(Space::input)) + " input chunks, " +
          std::to_string(schedule.chunks.chunks(Space::output)) + " output chunks, " +
          std::to_string(schedule.scratch_chunks) + " scratch chunks\n";
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    std::size_t widest = 0;
    for (const Step& step : schedule.lanes[lane]) widest = std::max(widest, kind_of(step).size());
    const std::size_t digits = std::to_string(schedule.lanes[lane].size()).size();
    for (std::size_t i = 0; i < schedule.lanes[lane].size(); ++i) {
      const Step step = schedule.lanes[lane][i];
      text += "lane " + std::to_string(lane) + "  " + padded(std::to_string(i), digits, true) +
              "  " + padded(std::string(kind_of(step)), widest) + "  " + print(step) + '\n';
    }
  }
  return text;
}

}  // namespace coll
