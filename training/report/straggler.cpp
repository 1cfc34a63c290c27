// SPDX-License-Identifier: Apache-2.0
// Compares the ranks' times, and says in words who is late.
#include "straggler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "../memory/failure.hpp"
#include "writing/report_text.hpp"

namespace training {
namespace {

constexpr double kLeastTime = 1e-9;  // a clock's tick: nothing is divided by 0

/// The upper one of two in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void check(std::span<const std::vector<double>> times) {
  for (const auto& step : times) {
    if (step.size() != times.front().size()) {
      throw Failure(
          fmt::format("times of {} ranks after times of {}: after a change of ranks begin "
                      "a new window.",
                      step.size(), times.front().size()));
    }
    for (std::size_t rank = 0; rank < step.size(); ++rank) {
      if (!std::isfinite(step[rank]) || step[rank] < 0) {
        throw Failure(
            fmt::format("rank {} tells a time of {} seconds: its clock or its sum is wrong.", rank,
                        step[rank]));
      }
    }
  }
}

RankPace pace_of(std::span<const std::vector<double>> times, std::size_t rank) {
  std::vector<double> ratios;
  double slower = 0;  // steps; half of one where times are equal
  for (std::vector<double> others : times) {
    const double own = others[rank];
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
    const double usual = median(others);
    slower += own > usual ? 1 : own == usual ? 0.5 : 0;
    ratios.push_back(std::max(own, kLeastTime) / std::max(usual, kLeastTime));
  }
  const auto steps = static_cast<double>(ratios.size());
  RankPace pace;
  pace.ratio = median(ratios);
  pace.score = (slower - steps / 2) / (std::sqrt(steps) / 2);
  pace.straggler = times.size() >= kStragglerSteps && pace.ratio >= kStragglerRatio &&
                   pace.score >= kStragglerScore;
  return pace;
}

/// "rank 4", "ranks 0-2 and 5".
std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    parts.push_back(i == last ? fmt::format("{}", ranks[i])
                              : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string whole_percent(double share) {
  return fmt::format("{:.0f} %", share * 100);
}

/// Who waited for `late`, and how long.
std::string waits_text(const Paces& paces, std::size_t late) {
  std::vector<std::size_t> others;
  double least = 1, most = 0, sum = 0;
  for (std::size_t rank = 0; rank < paces.ranks.size(); ++rank) {
    if (rank == late) continue;
    const double share = paces.waited[rank][late] / paces.seconds;
    others.push_back(rank);
    least = std::min(least, share);
    most = std::max(most, share);
    sum += share;
  }
  const std::string share = most - least < 0.05
                                ? whole_percent(sum / static_cast<double>(others.size()))
                                : fmt::format("{:.0f} to {}", least * 100, whole_percent(most));
  std::string who = ranks_text(others);
  who[0] = 'R';
  return fmt::format("{} waited {} of the time for rank {}.", who, share, late);
}

}  // namespace

Paces paces_of(std::span<const std::vector<double>> times) {
  Paces paces;
  paces.steps = times.size();
  if (times.empty()) return paces;
  check(times);
  const std::size_t ranks = times.front().size();
  paces.ranks.resize(ranks);
  paces.waited.assign(ranks, std::vector<double>(ranks));
  for (const auto& step : times) {
    const auto last = std::max_element(step.begin(), step.end());
    const auto late = static_cast<std::size_t>(last - step.begin());
    paces.seconds += *last;
    for (std::size_t rank = 0; rank < ranks; ++rank) paces.waited[rank][late] += *last - step[rank];
  }
  if (ranks < 2) return paces;
  for (std::size_t rank = 0; rank < ranks; ++rank) paces.ranks[rank] = pace_of(times, rank);
  return paces;
}

std::string straggler_text(const Paces& paces) {
  if (paces.ranks.size() < 2) return "One rank waits for no other.";
  if (paces.steps < kStragglerSteps) {
    return fmt::format("Too few steps to tell a slow rank from noise: {} of the {} needed.",
                       paces.steps, kStragglerSteps);
  }
  std::string text;
  for (std::size_t rank = 0; rank < paces.ranks.size(); ++rank) {
    const RankPace& pace = paces.ranks[rank];
    if (!pace.straggler) continue;
    text += fmt::format(
        "{}Rank {} is a straggler: over {} steps it took {:.2f} times as long as the "
        "others (z = {}). {}",
        text.empty() ? "" : " ", rank, paces.steps, pace.ratio, short_number(pace.score),
        waits_text(paces, rank));
  }
  if (!text.empty()) return text;
  double waited = 0;
  for (const auto& row : paces.waited)
    for (const double seconds : row) waited += seconds;
  const double all = paces.seconds * static_cast<double>(paces.ranks.size());
  return fmt::format(
      "No rank is a straggler over {} steps. Ranks waited {} of the time for whoever "
      "came last.",
      paces.steps, whole_percent(all > 0 ? waited / all : 0));
}

void StepTimes::add(std::vector<double> of_ranks) {
  // After a change of ranks the old times say nothing.
  if (!times_.empty() && times_.front().size() != of_ranks.size()) times_.clear();
  times_.push_back(std::move(of_ranks));
  if (times_.size() > window_) times_.pop_front();
}

Paces StepTimes::paces() const {
  const std::vector<std::vector<double>> times(times_.begin(), times_.end());
  return paces_of(times);
}

}  // namespace training
