// SPDX-License-Identifier: Apache-2.0
// The ports beside a rank's GPU, or of its NUMA node.
#include "sys/verbs/near_rails.hpp"

#include <algorithm>
#include <filesystem>

#include "sys/text_file.hpp"
#include "sys/verbs/pci_path.hpp"

namespace coll {
namespace {

/// Slower ports are for management: a rank beside one had better go a longer way to a fast one.
bool is_fast(const RdmaRail& rail, double fastest) {
  constexpr double kSame = 0.99;  // speeds of equal ports, as different drivers round them
  return rail.port.gigabits_per_s >= kSame * fastest;
}

/// Marks those of which `is_near` says so; false, and all are marked, if that makes no difference.
template <class IsNear>
bool mark(std::vector<RdmaRail>& rails, IsNear is_near) {
  for (RdmaRail& rail : rails) rail.near = is_near(rail);
  const auto count = std::ranges::count(rails, true, &RdmaRail::near);
  if (count > 0 && count < std::ssize(rails)) return true;
  for (RdmaRail& rail : rails) rail.near = true;
  return false;
}

std::string names_of_near(const std::vector<RdmaRail>& rails) {
  std::string names;
  for (const RdmaRail& rail : rails)
    if (rail.near) names += (names.empty() ? "" : ", ") + rail.port.name();
  return names;
}

}  // namespace

RankSeat rank_seat(int numa_node, const std::string& gpu, const std::string& sysfs) {
  RankSeat seat{numa_node};
  if (gpu.empty()) return seat;
  const std::filesystem::path folder = sysfs + "/bus/pci/devices/" + gpu;
  seat.gpu = pci_path_of(folder);
  if (int node = -1; is_number(first_line_of(folder / "numa_node"), node) && node >= 0)
    seat.numa_node = node;
  return seat;
}

std::string mark_near(std::vector<RdmaRail>& rails, const RankSeat& seat,
                      std::string_view interface) {
  const auto shared = [&](const RdmaRail& rail) {
    return shared_pci_levels(seat.gpu, rail.port.pci_path);
  };
  double fastest = 0;
  for (RdmaRail& rail : rails) {
    rail.near = true;
    rail.beside_gpu = shared(rail) > 0;
    fastest = std::max(fastest, rail.port.gigabits_per_s);
  }
  if (!interface.empty() && !interface.starts_with('^'))
    return "all that COLL_INTERFACE names are used";
  std::size_t longest = 0;
  for (const RdmaRail& rail : rails)
    if (is_fast(rail, fastest)) longest = std::max(longest, shared(rail));
  if (longest > 0 && mark(rails, [&](const RdmaRail& rail) {
        return is_fast(rail, fastest) && shared(rail) == longest;
      }))
    return names_of_near(rails) + " of " + std::to_string(rails.size()) +
           " are near this rank: they share most of the PCI bus with its GPU";
  if (seat.numa_node >= 0 && mark(rails, [&](const RdmaRail& rail) {
        return is_fast(rail, fastest) && rail.port.numa_node == seat.numa_node;
      }))
    return names_of_near(rails) + " of " + std::to_string(rails.size()) +
           " are near this rank: they are the fastest of NUMA node " +
           std::to_string(seat.numa_node);
  return "none is nearer to this rank than the others";
}

}  // namespace coll
