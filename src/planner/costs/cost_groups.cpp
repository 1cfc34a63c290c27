// SPDX-License-Identifier: Apache-2.0
// The table of the cost constants: the name and the range of each.
#include "planner/costs/cost_model.hpp"

namespace coll {
namespace {

/// Bounds that keep nonsense out, and numbers that arithmetic cannot take: no machine is near them.
constexpr double kMostUs = 1e6, kMostUsPerByte = 1, kMostBytes = 1e15, kMostFactor = 1e3;
constexpr double kLeastRate = 1e-3, kMostRate = 1e6;
/// Slices and counts are whole 32-bit numbers elsewhere.
constexpr double kLeastSlice = 64, kMostSlice = 1 << 30, kMostCount = 1024;

template <auto Group, auto Member>
double& at(CostConstants& of) {
  return of.*Group.*Member;
}
template <auto Group, auto Member>
constexpr CostConstant us(std::string_view name) {
  return {name, 0, kMostUs, at<Group, Member>};
}
template <auto Group, auto Member>
constexpr CostConstant us_per_byte(std::string_view name) {
  return {name, 0, kMostUsPerByte, at<Group, Member>};
}
/// Not 0, which no measured factor and no fit could change.
template <auto Group, auto Member>
constexpr CostConstant copied(std::string_view name) {
  return {name, 1e-9, kMostUsPerByte, at<Group, Member>};
}
template <auto Group, auto Member>
constexpr CostConstant bytes(std::string_view name, double least = 0, double most = kMostBytes) {
  return {name, least, most, at<Group, Member>};
}
/// A factor or a count.
template <auto Group, auto Member>
constexpr CostConstant times(std::string_view name, double most = kMostFactor) {
  return {name, 1, most, at<Group, Member>};
}
template <auto Group, auto Member>
constexpr CostConstant share(std::string_view name) {
  return {name, 1e-3, 1, at<Group, Member>};
}
template <auto Group, auto Member>
constexpr CostConstant rate(std::string_view name) {
  return {name, kLeastRate, kMostRate, at<Group, Member>};
}

template <auto Of>
constexpr CostConstant kPath[] = {
    us<Of, &PathCost::alpha_us>("alpha_us"),
    us<Of, &PathCost::step_us>("step_us"),
    us<Of, &PathCost::send_us>("send_us"),
    us_per_byte<Of, &PathCost::send_us_per_byte>("send_us_per_byte"),
    us_per_byte<Of, &PathCost::receive_us_per_byte>("receive_us_per_byte"),
    times<Of, &PathCost::slowdown>("slowdown"),
    bytes<Of, &PathCost::inline_bytes>("inline_bytes"),
    bytes<Of, &PathCost::line_bytes>("line_bytes"),
    us<Of, &PathCost::line_us>("line_us"),
    us<Of, &PathCost::long_us>("long_us"),
    bytes<Of, &PathCost::page_bytes>("page_bytes"),
    us_per_byte<Of, &PathCost::page_us_per_byte>("page_us_per_byte"),
    bytes<Of, &PathCost::fetched_bytes>("fetched_bytes"),
    us<Of, &PathCost::fetch_us>("fetch_us"),
    us_per_byte<Of, &PathCost::fetch_us_per_byte>("fetch_us_per_byte"),
    us_per_byte<Of, &PathCost::fetch_cold_us_per_byte>("fetch_cold_us_per_byte"),
};

constexpr auto kOfCopy = &CostConstants::copy;
constexpr CostConstant kCopy[] = {
    copied<kOfCopy, &CopyCost::us_per_byte>("us_per_byte"),
    times<kOfCopy, &CopyCost::slowdown>("slowdown"),
    bytes<kOfCopy, &CopyCost::staged_bytes>("staged_bytes", 0, kMostSlice),
};

constexpr auto kOfCache = &CostConstants::cache;
constexpr CostConstant kCache[] = {
    bytes<kOfCache, &CacheCost::own_bytes>("own_bytes", 1),
    times<kOfCache, &CacheCost::fetch_doublings>("fetch_doublings"),
    bytes<kOfCache, &CacheCost::slot_bytes>("slot_bytes"),
    times<kOfCache, &CacheCost::cold_slots>("cold_slots"),
};

constexpr auto kOfSharing = &CostConstants::sharing;
constexpr CostConstant kSharing[] = {
    us<kOfSharing, &SharingCost::hand_over_us>("hand_over_us"),
    times<kOfSharing, &SharingCost::crowded_fetch>("crowded_fetch"),
    times<kOfSharing, &SharingCost::crowded_copy>("crowded_copy"),
    times<kOfSharing, &SharingCost::readers_at_once>("readers_at_once"),
    share<kOfSharing, &SharingCost::helped_fetch>("helped_fetch"),
};

constexpr auto kOfCut = &CostConstants::cut;
constexpr CostConstant kCut[] = {
    bytes<kOfCut, &CutRules::least_slice_bytes>("least_slice_bytes", kLeastSlice, kMostSlice),
    times<kOfCut, &CutRules::slices_of_one_lane>("slices_of_one_lane"),
    times<kOfCut, &CutRules::slices_of_one_socket>("slices_of_one_socket"),
    times<kOfCut, &CutRules::pair_lanes>("pair_lanes"),
    times<kOfCut, &CutRules::pair_slices>("pair_slices"),
    times<kOfCut, &CutRules::pair_sum_slices>("pair_sum_slices"),
    times<kOfCut, &CutRules::pair_socket_lanes>("pair_socket_lanes"),
    times<kOfCut, &CutRules::pair_socket_slices>("pair_socket_slices"),
    share<kOfCut, &CutRules::fetch_border>("fetch_border"),
    share<kOfCut, &CutRules::results_fetched>("results_fetched"),
    bytes<kOfCut, &CutRules::lent_bytes>("lent_bytes"),
    bytes<kOfCut, &CutRules::one_way_lent_bytes>("one_way_lent_bytes"),
    bytes<kOfCut, &CutRules::crowded_lent_bytes>("crowded_lent_bytes"),
    bytes<kOfCut, &CutRules::fetched_bytes>("fetched_bytes"),
    bytes<kOfCut, &CutRules::all_gather_fetched_bytes>("all_gather_fetched_bytes"),
    bytes<kOfCut, &CutRules::all_to_all_fetched_bytes>("all_to_all_fetched_bytes"),
    bytes<kOfCut, &CutRules::crowded_all_gather_fetched_bytes>("crowded_all_gather_fetched_bytes"),
    bytes<kOfCut, &CutRules::crowded_all_to_all_fetched_bytes>("crowded_all_to_all_fetched_bytes"),
    bytes<kOfCut, &CutRules::unknown_block_bytes>("unknown_block_bytes", 1, kMostSlice),
};

constexpr auto kOfError = &CostConstants::error;
constexpr CostConstant kError[] = {
    times<kOfError, &ModelError::alike>("alike"),
    times<kOfError, &ModelError::described_alike>("described_alike"),
    times<kOfError, &ModelError::hopeless>("hopeless"),
    times<kOfError, &ModelError::crowded_hopeless>("crowded_hopeless"),
};

constexpr auto kOfLink = &CostConstants::link;
constexpr CostConstant kLink[] = {
    share<kOfLink, &LinkCost::nvlink_yield>("nvlink_yield"),
    share<kOfLink, &LinkCost::xgmi_yield>("xgmi_yield"),
    share<kOfLink, &LinkCost::pcie_yield>("pcie_yield"),
    share<kOfLink, &LinkCost::network_yield>("network_yield"),
    rate<kOfLink, &LinkCost::nvlink_gbytes_per_s>("nvlink_gbytes_per_s"),
    rate<kOfLink, &LinkCost::xgmi_gbytes_per_s>("xgmi_gbytes_per_s"),
    rate<kOfLink, &LinkCost::pcie_gbytes_per_s>("pcie_gbytes_per_s"),
    rate<kOfLink, &LinkCost::nic_gbytes_per_s>("nic_gbytes_per_s"),
    rate<kOfLink, &LinkCost::within_gpu_gbytes_per_s>("within_gpu_gbytes_per_s"),
    us<kOfLink, &LinkCost::nic_message_us>("nic_message_us"),
};

constexpr auto kOfGpu = &CostConstants::gpu;
constexpr CostConstant kGpu[] = {
    us<kOfGpu, &GpuCost::link_alpha_us>("link_alpha_us"),
    us<kOfGpu, &GpuCost::link_long_us>("link_long_us"),
    us<kOfGpu, &GpuCost::pci_alpha_us>("pci_alpha_us"),
    us<kOfGpu, &GpuCost::pci_long_us>("pci_long_us"),
    us<kOfGpu, &GpuCost::network_alpha_us>("network_alpha_us"),
    us<kOfGpu, &GpuCost::network_long_us>("network_long_us"),
    us<kOfGpu, &GpuCost::step_us>("step_us"),
    bytes<kOfGpu, &GpuCost::flagged_bytes>("flagged_bytes"),
    times<kOfGpu, &GpuCost::flagged_times>("flagged_times"),
    bytes<kOfGpu, &GpuCost::slice_bytes>("slice_bytes", kLeastSlice, kMostSlice),
    times<kOfGpu, &GpuCost::most_lanes>("most_lanes", kMostCount),
    us<kOfGpu, &GpuCost::stream_alpha_us>("stream_alpha_us"),
    us<kOfGpu, &GpuCost::stream_words_us>("stream_words_us"),
    us<kOfGpu, &GpuCost::copy_start_us>("copy_start_us"),
    bytes<kOfGpu, &GpuCost::device_least_bytes>("device_least_bytes"),
    bytes<kOfGpu, &GpuCost::fused_least_bytes>("fused_least_bytes"),
};

constexpr auto kOfProbe = &CostConstants::probe;
constexpr CostConstant kProbe[] = {
    us_per_byte<kOfProbe, &ProbeCost::copy_us_per_byte>("copy_us_per_byte"),
    us<kOfProbe, &ProbeCost::fetch_us>("fetch_us"),
    us_per_byte<kOfProbe, &ProbeCost::fetch_us_per_byte>("fetch_us_per_byte"),
    us<kOfProbe, &ProbeCost::line_us>("line_us"),
    us_per_byte<kOfProbe, &ProbeCost::pass_us_per_byte>("pass_us_per_byte"),
    us<kOfProbe, &ProbeCost::chain_us>("chain_us"),
    us<kOfProbe, &ProbeCost::send_us>("send_us"),
};

constexpr std::array<CostGroup, kCostGroups> kGroups{{
    {"memory", kPath<&CostConstants::memory>},
    {"kernel", kPath<&CostConstants::kernel>},
    {"rdma", kPath<&CostConstants::rdma>},
    {"network", kPath<&CostConstants::network>},
    {"copy", kCopy},
    {"cache", kCache},
    {"sharing", kSharing},
    {"cut", kCut},
    {"error", kError},
    {"link", kLink},
    {"gpu", kGpu},
    {"probe", kProbe},
}};

consteval std::size_t constants_of_all() {
  std::size_t count = 0;
  for (const CostGroup& group : kGroups) count += group.constants.size();
  return count;
}
static_assert(sizeof(CostConstants) == constants_of_all() * sizeof(double),
              "every constant has a row");

}  // namespace

std::string_view CostConstant::unit() const {
  if (name.ends_with("us_per_byte")) return "us/byte";
  if (name.ends_with("_gbytes_per_s")) return "GB/s";
  if (name.ends_with("_us")) return "us";
  if (name.ends_with("_bytes")) return "bytes";
  return "";
}

std::span<const CostGroup, kCostGroups> cost_groups() {
  return kGroups;
}

}  // namespace coll
