// SPDX-License-Identifier: Apache-2.0
// The default cost model: its values, and where each was measured.
#include <algorithm>

#include "base/made_once.hpp"
#include "planner/costs/cost_model.hpp"

namespace coll {
namespace {

constexpr double kKiB = 1 << 10, kMiB = 1 << 20;

constexpr CostConstants kDefault{
    .memory = {.alpha_us = 0.105,
               .step_us = 0.035,
               .send_us = 0.02,
               .send_us_per_byte = 57e-6,
               .receive_us_per_byte = 57e-6,
               .slowdown = 1.4,
               .inline_bytes = 112,
               .line_bytes = 48,
               .line_us = 0.09,
               .long_us = 0.11,
               .page_bytes = 4 * kKiB,
               .page_us_per_byte = 38e-6,
               .fetched_bytes = 16 * kKiB,
               .fetch_us = 1,
               .fetch_us_per_byte = 32e-6,
               .fetch_cold_us_per_byte = 112e-6},
    .kernel = {.alpha_us = 0.5,
               .step_us = 0.2,
               .send_us = 2.4,
               .send_us_per_byte = 110e-6,
               .receive_us_per_byte = 110e-6,
               .slowdown = 1.15,
               .page_bytes = 4 * kKiB,
               .page_us_per_byte = 130e-6},
    .rdma = {.alpha_us = 1.8,
             .step_us = 0.2,
             .send_us = 0.2,
             .send_us_per_byte = 40e-6,
             .receive_us_per_byte = 80e-6,
             .slowdown = 1.4},
    .network = {.alpha_us = 12,
                .step_us = 1.5,
                .send_us_per_byte = 125e-6,
                .receive_us_per_byte = 125e-6,
                .slowdown = 1.6},
    .copy = {.us_per_byte = 25e-6, .slowdown = 2.3, .staged_bytes = 14 * kKiB},
    .cache = {.own_bytes = 1 * kMiB,
              .fetch_doublings = 5,
              .slot_bytes = 4 * kMiB,
              .cold_slots = 2.2},
    .sharing = {.hand_over_us = 1.3,
                .crowded_fetch = 2,
                .crowded_copy = 1,
                .readers_at_once = 8,
                .helped_fetch = 0.5},
    // To have messages fetched halves the copies, but the receiver makes them all. Where messages
    // go both ways at once that is half the work for either side. Where they go one way it shortens
    // the way of a single slice, and loses against two sides that copy slice after slice in step.
    // Beyond the caches memory is the limit either way, the sooner the more ranks share it.
    .cut = {.least_slice_bytes = 16 * kKiB,
            .slices_of_one_lane = 2,
            .slices_of_one_socket = 8,
            .pair_lanes = 1,
            .pair_slices = 4,
            .pair_sum_slices = 2,
            .pair_socket_lanes = 1,
            .pair_socket_slices = 4,
            .lent_bytes = 1 * kKiB,
            .one_way_lent_bytes = 8 * kKiB,
            .crowded_lent_bytes = 32 * kKiB,
            .fetched_bytes = 1 * kMiB,
            .all_gather_fetched_bytes = 32 * kMiB,
            .all_to_all_fetched_bytes = 32 * kMiB,
            .crowded_all_gather_fetched_bytes = 2 * kMiB,
            .crowded_all_to_all_fetched_bytes = 16 * kMiB,
            .fetch_border = 0.5946,
            .results_fetched = 0.5,
            .unknown_block_bytes = 256 * kKiB},
    .error = {.alike = 1.2, .described_alike = 1.03, .hopeless = 2, .crowded_hopeless = 20},
    .link = {.nvlink_yield = 0.8,
             .xgmi_yield = 0.75,
             .pcie_yield = 0.77,
             .network_yield = 0.95,
             .nvlink_gbytes_per_s = 25,
             .xgmi_gbytes_per_s = 50,
             .pcie_gbytes_per_s = 15.75,
             .nic_gbytes_per_s = 12.5,
             .within_gpu_gbytes_per_s = 700,
             .nic_message_us = 0.3},
    .gpu = {.link_alpha_us = 0.6,
            .link_long_us = 2.8,
            .pci_alpha_us = 1.0,
            .pci_long_us = 4.7,
            .network_alpha_us = 2.7,
            .network_long_us = 11.3,
            .step_us = 0.1,
            .flagged_bytes = 8192,
            .flagged_times = 4,
            .slice_bytes = 512 * kKiB,
            .most_lanes = 16,
            .stream_alpha_us = 2,
            .stream_words_us = 2,
            .copy_start_us = 3,
            .device_least_bytes = 32 * kKiB,
            .fused_least_bytes = 1 * kKiB},
    .probe = {.copy_us_per_byte = 25e-6,
              .fetch_us = 1,
              .fetch_us_per_byte = 32e-6,
              .line_us = 0.105,
              .pass_us_per_byte = 114e-6,
              .chain_us = 1.33,
              .send_us = 2.5},
};

CostModel made() {
  return {
      .name = "xeon-2-core",
      .machine = "2-core virtual Xeon (Sapphire Rapids class)",
      .date = "2026-11",
      .constants = kDefault,
      .measured =
          {
              // memory
              "the best fit to the times of all algorithms on 2, 4 and 8 ranks "
              "(docs/performance.md)",
              // kernel
              "loopback and veth on this machine",
              // rdma
              "estimates, not yet measured on such a network: a link of 100 Gbit/s, messages of 2 "
              "us from memory to memory, a copy at either end",
              // network
              "estimates of usual Ethernet; no such network was available to measure",
              // copy
              "the best fit, with memory",
              // cache
              "the best fit, with memory, for calls beyond 1 MiB and ranks that share cores",
              // sharing
              "hand_over_us, crowded_fetch and crowded_copy: the best fit on 4 and 8 ranks of 2 "
              "cores; "
              "readers_at_once: an estimate for hosts of many cores, without effect on two; "
              "helped_fetch: broadcast, scatter and gather of 256 KiB to 16 MiB on 2 ranks, 0.33 "
              "to "
              "0.76 of the time, not yet measured on others",
              // cut
              "cuts compared on 2 to 8 ranks (docs/performance.md); pair_lanes, pair_slices, "
              "pair_socket_lanes, pair_socket_slices and fetch_border: of an AMD EPYC of Zen 3, "
              "not yet measured on others; pair_sum_slices: sums of 128 KiB to 2 MiB on 2 ranks of "
              "a Xeon of Emerald Rapids, and of 4 MiB on an AMD EPYC of Zen 4; pair_lanes of sums "
              "and results_fetched: that EPYC",
              // error
              "predicted against measured times on this machine (docs/performance.md); "
              "described_alike: a choice, since the error there is unknown",
              // link
              "yields: NVLink 370 of 450 GB/s on 8 H100, 230 of 300 on 8 A100 (nccl-tests issues "
              "212, 149), networks 193 of 200 and 91 of 100 (issue 100), PCI Express 24 of 31.5 "
              "GB/s, fourth generation (NCCL's src/graph/topo.h); rates: NVLink 2 to 4, XGMI of an "
              "MI250X, PCI Express 3 with 16 lanes, a NIC of 100 Gbit/s; within_gpu_gbytes_per_s "
              "and nic_message_us: estimates",
              // gpu
              "hops: hwLat of rings, LL and Simple, in NCCL 2.18's src/graph/tuning.cc; "
              "flagged_times: it plans its LL protocol with a quarter of a link's bandwidth (a "
              "third for all_gather, reduce_scatter and broadcast on one host; from 2.21 on a "
              "half); slice_bytes: its Simple protocol; step_us: an estimate; stream_alpha_us, "
              "stream_words_us and copy_start_us: estimates, not yet measured on a GPU, from "
              "others' "
              "figures: 3 us for two streams that wait for each other and for a kernel that was "
              "enqueued before (facebookincubator/velox 6096, RTX 3080), 5 to 7 us for a processor "
              "to enqueue a copy (arXiv 2602.21548); device_least_bytes: where these make "
              "all_reduce by streams and by the host take equally long, on 2 hosts of 4 GPUs "
              "(docs/planning.md)",
              // probe
              "copy, fetch, line and pass: the constants of copy and memory, which they should "
              "equal; send_us: over veth; chain_us: an estimate, four cycles each at 3 GHz",
          },
  };
}

}  // namespace

const std::shared_ptr<const CostModel>& default_cost_model() {
  return made_once([] { return std::make_shared<const CostModel>(made()); });
}

std::shared_ptr<const CostModel> with_rdma_links(std::shared_ptr<const CostModel> model,
                                                 double gbytes_per_s) {
  if (gbytes_per_s <= 0) return model;
  auto made = std::make_shared<CostModel>(*model);
  PathCost& rdma = made->constants.rdma;
  rdma.receive_us_per_byte = std::max(rdma.send_us_per_byte, 1e-3 / gbytes_per_s);
  return made;
}

}  // namespace coll
