// SPDX-License-Identifier: Apache-2.0
// The network of ranks that met with a GPU each, link by link.
#include "planner/networks/device_network.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace coll {
namespace {

constexpr double us_per_byte(double gbytes_per_s) {
  return 1e-3 / gbytes_per_s;
}

/// What nobody on this host knew: each rank has its own GPU, all on one PCI root.
DeviceWays assumed_ways(std::size_t ranks, const LinkCost& costs) {
  DeviceWays ways;
  const auto rate = static_cast<float>(costs.pcie_gbytes_per_s * costs.pcie_yield);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::string name = "the GPU of rank " + std::to_string(rank) + " there";
    ways.gpu.push_back(static_cast<std::int32_t>(rank));
    ways.gpus.push_back(name);
    ways.links.push_back({"PCI of " + name + ", up", rate});
    ways.links.push_back({"PCI of " + name + ", down", rate});
    ways.up.push_back({static_cast<std::uint16_t>(2 * rank)});
    ways.down.push_back({static_cast<std::uint16_t>(2 * rank + 1)});
  }
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      DeviceWay& way = ways.between.emplace_back();
      if (from != to) way = {ways.up[from].front(), ways.down[to].front()};
    }
  }
  return ways;
}

/// A GPU of one of the hosts.
struct Gpu {
  std::uint32_t memory = 0;  ///< its link
  std::vector<std::uint32_t> up, down;
  double within_us_per_byte = 0, down_us_per_byte = 0;
};

struct RankOfGpu {
  std::size_t host = 0, number = 0;  ///< the GPU's among those of its host
  std::uint32_t out = 0, in = 0;     ///< links: the thread that moves what the GPU staged
};

struct Host {
  std::vector<Gpu> gpus;
  std::vector<std::vector<std::uint32_t>> between;  ///< from each to each, row by row
  std::uint32_t out = 0, in = 0;                    ///< its network's links, if ranks share it
};

/// All that routes are made of; every rank's would be many.
struct Fabric {
  std::vector<RankOfGpu> ranks;
  std::vector<Host> hosts;
  bool over_network = false;
  DeviceMoves moves = DeviceMoves::by_streams;
  PathCost between;
  GpuCost gpu;

  [[nodiscard]] Route route(Rank source, Rank target) const;
  /// What messages of fused kernels cost on these links, which are of one host: as on a described
  /// machine.
  void give_kernels(Route& route, const Gpu& sender) const {
    const std::uint32_t first = route.links.front();
    const bool by_pci = first == sender.up.front();
    route.alpha_us = by_pci ? gpu.pci_alpha_us : gpu.link_alpha_us;
    route.long_us = by_pci ? gpu.pci_long_us : first == sender.memory ? 0 : gpu.link_long_us;
    route.send_us = route.receive_us_per_byte = 0;
    route.inline_bytes = gpu.flagged_bytes;
  }
};

Route Fabric::route(Rank source, Rank target) const {
  const RankOfGpu& from = ranks[static_cast<std::size_t>(source)];
  const RankOfGpu& to = ranks[static_cast<std::size_t>(target)];
  const Host& here = hosts[from.host];
  const Gpu& sender = here.gpus[from.number];
  const Gpu& receiver = hosts[to.host].gpus[to.number];
  // Each end waits for its word, puts it back, and writes the other's.
  Route route{.alpha_us = gpu.stream_alpha_us,
              .send_us = gpu.stream_words_us,
              .receive_us_per_byte = receiver.within_us_per_byte,
              .long_us = gpu.stream_words_us};
  if (from.host == to.host && from.number == to.number) {
    route.links = {sender.memory};
    route.receive_us_per_byte = 0;  // the link counts the copy out of the slot, too
  } else if (from.host == to.host) {
    route.links = here.between[from.number * here.gpus.size() + to.number];
  } else {
    // The streams of both sides and the threads between them notice one another.
    route.alpha_us = 2 * gpu.stream_alpha_us + between.alpha_us;
    route.receive_us_per_byte = receiver.down_us_per_byte;  // the slot is in pinned memory
    route.links = sender.up;
    route.links.push_back(from.out);
    if (over_network) {
      route.links.push_back(here.out);
      route.links.push_back(hosts[to.host].in);
    }
    route.links.push_back(to.in);
    route.links.insert(route.links.end(), receiver.down.begin(), receiver.down.end());
  }
  if (moves == DeviceMoves::by_fused_kernels) give_kernels(route, sender);
  return route;
}

/// Makes the links of all hosts.
class Builder {
 public:
  Builder(const DeviceRanks& ranks, const CostConstants& costs, Network& network)
      : of_(ranks), costs_(costs), network_(network) {
    fabric_.over_network = ranks.over_network;
    fabric_.moves = ranks.moves;
    fabric_.between = ranks.between;
    fabric_.gpu = costs.gpu;
    fabric_.ranks.resize(ranks.layout.host.size());
  }

  Fabric build() {
    const auto hosts = static_cast<std::size_t>(of_.layout.hosts());
    for (std::size_t host = 0; host < hosts; ++host) add_host(host);
    return std::move(fabric_);
  }

  /// The slowest GPU's.
  [[nodiscard]] double within_us_per_byte() const { return slowest_within_; }

 private:
  std::uint32_t add(std::string name, std::size_t host, double us_per_byte, double message_us = 0) {
    if (of_.layout.hosts() > 1) name = "host " + std::to_string(host) + ": " + name;
    network_.links.push_back({std::move(name), us_per_byte, message_us});
    return static_cast<std::uint32_t>(network_.links.size() - 1);
  }

  /// The best of those who measured this GPU; 0: nobody did.
  [[nodiscard]] double best(const std::vector<Rank>& ranks, double DeviceCopyCosts::*of) const {
    double best = 0;
    for (const Rank rank : ranks) {
      if (const auto at = static_cast<std::size_t>(rank); at < of_.measured.size())
        best = std::max(best, of_.measured[at].*of);
    }
    return best;
  }

  void add_host(std::size_t number) {
    std::vector<Rank> ranks = of_.layout.members_of(static_cast<Rank>(number));
    std::ranges::sort(ranks);
    const bool told = number < of_.ways.size() && of_.ways[number].gpu.size() == ranks.size() &&
                      std::ranges::min(of_.ways[number].gpu) >= 0;
    const DeviceWays assumed = told ? DeviceWays{} : assumed_ways(ranks.size(), costs_.link);
    const DeviceWays& ways = told ? of_.ways[number] : assumed;
    fabric_.hosts.emplace_back();
    std::vector<std::vector<Rank>> on(ways.gpus.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto gpu = static_cast<std::size_t>(ways.gpu[i]);
      on[gpu].push_back(ranks[i]);
      RankOfGpu& rank = fabric_.ranks[static_cast<std::size_t>(ranks[i])];
      rank.host = number;
      rank.number = gpu;
    }
    add_gpus(ways, on, number);
    if (of_.layout.hosts() > 1) add_network(ranks, number);
  }

  /// `on`: the ranks of each GPU.
  void add_gpus(const DeviceWays& ways, const std::vector<std::vector<Rank>>& on,
                std::size_t number) {
    Host& host = fabric_.hosts.back();
    std::vector<double> rates;
    for (const DeviceLink& link : ways.links) rates.push_back(link.gbytes_per_s);
    for (std::size_t gpu = 0; gpu < on.size(); ++gpu) {
      // A GPU's own link is the first up and the last down.
      if (const double rate = best(on[gpu], &DeviceCopyCosts::to_host_gbytes_per_s); rate > 0)
        rates[ways.up[gpu].front()] = rate;
      if (const double rate = best(on[gpu], &DeviceCopyCosts::from_host_gbytes_per_s); rate > 0)
        rates[ways.down[gpu].back()] = rate;
    }
    const auto first = static_cast<std::uint32_t>(network_.links.size());
    for (std::size_t link = 0; link < rates.size(); ++link)
      add(ways.links[link].name, number, us_per_byte(rates[link]));
    const auto numbered = [first](const DeviceWay& way) {
      std::vector<std::uint32_t> links;
      for (const std::uint16_t link : way) links.push_back(first + link);
      return links;
    };
    for (const DeviceWay& way : ways.between) host.between.push_back(numbered(way));
    for (std::size_t gpu = 0; gpu < on.size(); ++gpu) {
      const double known = best(on[gpu], &DeviceCopyCosts::within_gbytes_per_s);
      const double within = us_per_byte(known > 0 ? known : costs_.link.within_gpu_gbytes_per_s);
      slowest_within_ = std::max(slowest_within_, within);
      Gpu& added = host.gpus.emplace_back();
      added.memory = add("memory of " + ways.gpus[gpu], number, 2 * within);
      added.up = numbered(ways.up[gpu]);
      added.down = numbered(ways.down[gpu]);
      added.within_us_per_byte = within;
      for (const std::uint32_t link : added.down)
        added.down_us_per_byte = std::max(added.down_us_per_byte, network_.links[link].us_per_byte);
    }
  }

  /// What messages to other hosts cross between the pinned memory of both.
  void add_network(const std::vector<Rank>& ranks, std::size_t number) {
    const PathCost& path = of_.between;
    for (const Rank each : ranks) {
      RankOfGpu& rank = fabric_.ranks[static_cast<std::size_t>(each)];
      const std::string name = "thread of rank " + std::to_string(each);
      rank.out = add(name + ", out", number, path.send_us_per_byte, path.step_us + path.send_us);
      rank.in = add(name + ", in", number, path.receive_us_per_byte, path.step_us + path.long_us);
    }
    if (!of_.over_network) return;
    // Which NIC it is and what it moves, only the transports know.
    const double wire = us_per_byte(costs_.link.nic_gbytes_per_s * costs_.link.network_yield);
    fabric_.hosts.back().out = add("network, out", number, wire);
    fabric_.hosts.back().in = add("network, in", number, wire);
  }

  const DeviceRanks& of_;
  const CostConstants& costs_;
  Network& network_;
  Fabric fabric_;
  double slowest_within_ = 0;
};

/// Where a rank measured nothing, the constant holds.
double copy_start_us(std::span<const DeviceCopyCosts> measured, double usual) {
  double slowest = 0;
  for (const DeviceCopyCosts& each : measured) slowest = std::max(slowest, each.start_us);
  return slowest > 0 ? slowest : usual;
}

}  // namespace

Network device_network(const DeviceRanks& ranks, const CostConstants& costs) {
  // What a kernel that combines moves beside what a copy moves: it reads two operands.
  constexpr double kSecondOperand = 0.5;
  Network network;
  const bool by_streams = ranks.moves == DeviceMoves::by_streams;
  network.threads = false;
  network.lanes_copy = by_streams;
  Builder builder(ranks, costs, network);
  const auto fabric = std::make_shared<const Fabric>(builder.build());
  network.step_us =
      by_streams ? copy_start_us(ranks.measured, costs.gpu.copy_start_us) : costs.gpu.step_us;
  if (!by_streams) network.flagged_times = costs.gpu.flagged_times;
  network.copy_us_per_byte = builder.within_us_per_byte();
  network.reduce_us_per_byte = kSecondOperand * builder.within_us_per_byte();
  network.route = [fabric](Rank source, Rank target) { return fabric->route(source, target); };
  return network;
}

void set_device_network(World& world, std::span<const DeviceWays> ways,
                        std::span<const DeviceCopyCosts> measured, DeviceMoves moves) {
  DeviceRanks ranks{.layout = world.layout,
                    .ways = ways,
                    .between = world.between(),
                    .over_network = world.view.between != &CostConstants::kernel,
                    .moves = moves};
  world.network = std::make_shared<const Network>(device_network(ranks, world.costs()));
  ranks.measured = measured;
  world.measured_network = std::make_shared<const Network>(device_network(ranks, world.costs()));
  world.shared_memory = false;
  world.view.ranks_per_core = 1;
  world.view.cores.clear();
  world.view.measured = {};
  world.view.factors = {};
}

}  // namespace coll
