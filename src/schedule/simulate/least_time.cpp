// SPDX-License-Identifier: Apache-2.0
// How long a call takes at least, from the schedules of a few ranks.
#include "schedule/simulate/least_time.hpp"

#include <algorithm>
#include <unordered_map>

#include "schedule/simulate/load_windows.hpp"

namespace coll {
namespace {

/// The most steps that are read of a rank's work, and of a chain; and the most messages of a chain
/// that are followed.
constexpr std::size_t kMostStepsRead = 100'000, kMostMessages = 512;

/// What a step takes of its rank, at least: it may have been copied before, for another peer.
double step_us(const Network& network, const Step& step, const Route* in, double bytes) {
  return network.step_us + (in != nullptr ? in->receiving_us(bytes) : 0) +
         (step.with.present() ? bytes * network.reduce_us_per_byte : 0);
}

/// One rank's steps and messages.
class Work {
 public:
  Work(const Schedule& schedule, const Network& network, const Load& load)
      : schedule_(schedule),
        network_(network),
        windows_(windows_of(schedule, load)),
        copies_(load.copies),
        slice_bytes_(load.slice_bytes) {}

  double least_us() {
    for (const Lane& lane : schedule_.lanes) {
      // All passes but the last move the same bytes. The copies of a lane take the passes in turns.
      const auto before_last = static_cast<double>(windows_.passes - 1);
      const std::uint64_t each = (windows_.passes - 1) / copies_;
      const auto of_a_copy = static_cast<double>(each);
      double us = 0;
      if (windows_.passes > 1)
        pass(lane, 0, before_last, network_.threads ? before_last : of_a_copy, us);
      pass(lane, windows_.passes - 1, 1, 1, us);
      rank_us_ = network_.threads ? rank_us_ + us : std::max(rank_us_, us);
    }
    return std::max(rank_us_, link_us_);
  }

 private:
  /// A pass that is done `times` times, `in_turn` of them one after the other.
  void pass(const Lane& lane, std::uint64_t number, double times, double in_turn, double& us) {
    for (const Step& step : lane) {
      if (++steps_ > kMostStepsRead) return;
      const double bytes = bytes_in_pass(windows_, schedule_.chunks.parts, step, number);
      const Route* in = step.receives() ? &route(step.source, true) : nullptr;
      us += in_turn * step_us(network_, step, in, bytes);
      if (in != nullptr) cross(*in, bytes, times);
      if (step.sends()) cross(route(step.target, false), bytes, times);
    }
  }

  const Route& route(Rank peer, bool incoming) {
    auto& known = incoming ? from_ : to_;
    const auto at = known.find(peer);
    if (at != known.end()) return at->second;
    const Rank own = schedule_.rank;
    return known.emplace(peer, incoming ? network_.route(peer, own) : network_.route(own, peer))
        .first->second;
  }

  void cross(const Route& of, double bytes, double times) {
    for (const std::uint32_t link : of.links) {
      double& us = links_[link];
      us += times * network_.occupied_us(network_.links[link], of, slice_bytes_, bytes);
      link_us_ = std::max(link_us_, us);
    }
  }

  const Schedule& schedule_;
  const Network& network_;
  Windows windows_;
  std::uint64_t copies_;
  double slice_bytes_;
  std::unordered_map<Rank, Route> from_, to_;
  std::unordered_map<std::uint32_t, double> links_;
  double rank_us_ = 0, link_us_ = 0;
  std::size_t steps_ = 0;
};

/// The steps of a lane up to one that sends to `target` for the `number`-th time.
std::size_t end_of_send(const Lane& lane, Rank target, std::size_t number) {
  std::size_t steps = 0;
  for (const Step& step : lane) {
    ++steps;
    if (step.target == target && --number == 0) return steps;
  }
  return 0;  // never sent: such schedules wait for ever
}

/// Goes back from the rank's last step in the first pass of the first lane. At each message it goes
/// on at the sender, with what the sender did before.
double chain_us(const std::function<Schedule(Rank)>& build, Rank rank, const Network& network,
                const Load& load) {
  Schedule schedule = build(rank);
  const Windows windows = windows_of(schedule, load);
  double us = 0;
  std::size_t steps = 0, messages = 0;
  for (std::size_t left = schedule.lanes[0].size(); left > 0;) {
    const Lane& lane = schedule.lanes[0];
    const Step step = lane[--left];
    const double bytes = bytes_in_pass(windows, schedule.chunks.parts, step, 0);
    if (!step.receives()) {
      us += step_us(network, step, nullptr, bytes);
      if (++steps > kMostStepsRead) break;
      continue;
    }
    const Rank here = schedule.rank;
    const Route route = network.route(step.source, here);
    us += step_us(network, step, &route, bytes) + route.crossing_us(bytes);
    double slowest = 0;
    for (const std::uint32_t link : route.links) {
      slowest = std::max(slowest,
                         network.occupied_us(network.links[link], route, load.slice_bytes, bytes));
    }
    us += slowest;
    std::size_t number = 1;
    auto at = lane.begin();
    for (std::size_t i = 0; i < left; ++i) {
      if (at->source == step.source) ++number;
      ++at;
    }
    steps += 2 * left;
    if (++messages > kMostMessages || steps > kMostStepsRead) break;
    schedule = build(step.source);
    left = end_of_send(schedule.lanes[0], here, number);
  }
  return us;
}

}  // namespace

double least_us(const std::function<Schedule(Rank)>& build, std::span<const Rank> ranks,
                const Network& network, const Load& load) {
  double most = 0;
  for (const Rank rank : ranks) {
    const Schedule schedule = build(rank);
    if (schedule.lanes.empty()) continue;
    most = std::max(most, Work(schedule, network, load).least_us());
    most = std::max(most, chain_us(build, rank, network, load));
  }
  return most;
}

}  // namespace coll
