// SPDX-License-Identifier: Apache-2.0
// Steps with their FIFOs and costs, worked out once for all runs of a simulation.
#include "schedule/simulate/bound_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "schedule/fan_out.hpp"
#include "schedule/simulate/load_windows.hpp"

namespace coll {

class BoundLanes::Binding {
 public:
  Binding(BoundLanes& bound, const Network& network, const Load& load, const Windows& windows,
          const Disturbance& disturbance, const Symmetry& symmetry)
      : bound_(bound),
        network_(network),
        load_(load),
        windows_(windows),
        disturbance_(disturbance),
        symmetry_(symmetry) {}

  void bind(const Lane& of) {
    const Schedule& schedule = bound_.schedules_[of.rank];
    const coll::Lane& lane = schedule.lanes[of.number];
    std::vector<FanOut> fan_outs;
    if (std::isfinite(network_.staged_bytes)) fan_outs = coll::fan_outs(lane);
    std::size_t place = 0;
    for (const coll::Step& step : lane) {
      const FanOut fan_out = fan_outs.empty() ? FanOut{} : fan_outs[place++];
      bound_.steps_.push_back({.in = step.receives() ? fifo_from(of, step.source) : kNone,
                               .out = step.sends() ? fifo_to(of, step.target) : kNone,
                               .wait_step = step.wait_step,
                               .wait_lane = step.wait_lane});
      BoundLanes::Step& bound = bound_.steps_.back();
      const auto in_pass = [&](std::uint64_t pass) {
        const double bytes = bytes_in_pass(windows_, schedule.chunks.parts, step, pass);
        return Cost{cost_us(of, step, bound, fan_out, bytes), bytes};
      };
      const Cost last = in_pass(windows_.passes - 1);
      const Cost full = windows_.passes > 1 ? in_pass(0) : last;
      bound.cost = index_of({full, last});
      bound_.work_[of.rank].full_us += full.us;
      bound_.work_[of.rank].last_us += last.us;
    }
  }

 private:
  std::uint32_t fifo_to(const Lane& writer, Rank target) {
    const Rank rank = bound_.schedules_[writer.rank].rank;
    return fifo(writer.number, writer.rank, stand_in(target), target,
                [&] { return network_.route(rank, target); });
  }

  /// Of a group that stands for all, the sender sends to a group as far away as the source is here.
  std::uint32_t fifo_from(const Lane& reader, Rank source) {
    const Schedule& schedule = bound_.schedules_[reader.rank];
    Rank target = schedule.rank;
    if (symmetry_.size > 0)
      target += symmetry_.groups_from(source, schedule.spec.ranks) * symmetry_.size;
    return fifo(reader.number, stand_in(source), reader.rank, target,
                [&] { return network_.route(source, schedule.rank); });
  }

  /// The rank whose schedule is the peer's.
  [[nodiscard]] std::size_t stand_in(Rank peer) const {
    return static_cast<std::size_t>(symmetry_.size > 0 ? peer % symmetry_.size : peer);
  }

  /// Between lanes of this number; `target` is whom the writer sends to. The first of both ends
  /// makes it.
  template <class MakeRoute>
  std::uint32_t fifo(std::uint32_t number, std::size_t writer, std::size_t reader, Rank target,
                     const MakeRoute& make_route) {
    const std::uint32_t from = lane_of(writer, number);
    const std::uint64_t key = std::uint64_t{from} << 32 | static_cast<std::uint32_t>(target);
    const auto next = static_cast<std::uint32_t>(bound_.fifos_.size());
    const auto [at, is_new] = fifos_.emplace(key, next);
    if (is_new) bound_.fifos_.push_back({.writer = from, .route = {}});
    Fifo& between = bound_.fifos_[at->second];
    if (between.reader == kNone) {
      between.reader = lane_of(reader, number);
      between.route = make_route();
    }
    return at->second;
  }

  [[nodiscard]] std::uint32_t lane_of(std::size_t rank, std::uint32_t number) const {
    const std::uint32_t lane = bound_.first_lane_[rank] + number;
    return lane < bound_.first_lane_[rank + 1] ? lane : kNone;
  }

  [[nodiscard]] double cost_us(const Lane& of, const coll::Step& step,
                               const BoundLanes::Step& bound, const FanOut& fan_out,
                               double bytes) const {
    double us = network_.step_us;
    if (bound.in != kNone) us += bound_.fifos_[bound.in].route.receiving_us(bytes);
    if (bound.out != kNone) {
      const Route& route = bound_.fifos_[bound.out].route;
      // A staged message has been copied already, for another peer.
      const bool staged =
          fan_out.readers > 0 && !fan_out.first && bytes * fan_out.readers >= network_.staged_bytes;
      us += staged ? route.send_us : route.sending_us(bytes);
    }
    if (step.with.present()) us += bytes * network_.reduce_us_per_byte;
    const bool stays =
        step.from == step.into || (load_.one_buffer && step.from.chunk == step.into.chunk);
    if (!step.receives() && step.into.present() && !stays) us += bytes * network_.copy_us_per_byte;
    if (!disturbance_.slowness.empty()) us *= disturbance_.slowness[of.rank];
    return us;
  }

  /// Most steps of a lane cost the same as one of the few before them.
  std::uint32_t index_of(const Costs& costs) {
    constexpr std::size_t kLookBack = 8;
    std::vector<Costs>& all = bound_.costs_;
    const std::size_t first = all.size() - std::min(all.size(), kLookBack);
    for (std::size_t at = all.size(); at > first; --at) {
      if (all[at - 1] == costs) return static_cast<std::uint32_t>(at - 1);
    }
    all.push_back(costs);
    return static_cast<std::uint32_t>(all.size() - 1);
  }

  BoundLanes& bound_;
  const Network& network_;
  const Load& load_;
  const Windows& windows_;
  const Disturbance& disturbance_;
  const Symmetry& symmetry_;
  std::unordered_map<std::uint64_t, std::uint32_t> fifos_;  ///< by writer and target
};

BoundLanes::BoundLanes(std::span<const Schedule> schedules, const Network& network,
                       const Load& load, const Windows& windows, const Disturbance& disturbance,
                       const Symmetry& symmetry)
    : schedules_(schedules), work_(schedules.size()) {
  std::size_t steps = 0;
  for (std::uint32_t rank = 0; rank < schedules.size(); ++rank) {
    first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    const std::vector<coll::Lane>& lanes = schedules[rank].lanes;
    for (std::uint32_t number = 0; number < lanes.size(); ++number) {
      lanes_.push_back({rank, number, steps, lanes[number].size()});
      steps += lanes[number].size();
    }
  }
  first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
  steps_.reserve(steps);
  Binding binding(*this, network, load, windows, disturbance, symmetry);
  for (const Lane& lane : lanes_) binding.bind(lane);
}

double BoundLanes::work_us(std::uint64_t full_passes, bool last, const Network& network) const {
  if (!network.threads) return 0;
  std::vector<double> cores;
  for (std::size_t rank = 0; rank < work_.size(); ++rank) {
    const std::size_t core = network.core.empty() ? rank : network.core[rank];
    if (core >= cores.size()) cores.resize(core + 1);
    cores[core] += static_cast<double>(full_passes) * work_[rank].full_us;
    if (last) cores[core] += work_[rank].last_us;
  }
  return cores.empty() ? 0 : *std::ranges::max_element(cores);
}

}  // namespace coll
