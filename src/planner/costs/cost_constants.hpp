// SPDX-License-Identifier: Apache-2.0
// The constants of the cost model: one member for each number that plans and predictions read.
#pragma once

namespace coll {

// Members ending in _us are microseconds, in _us_per_byte microseconds per byte, in _bytes bytes,
// in _gbytes_per_s GB/s in one direction. All others are plain factors, shares and counts. Their
// ranges are in cost_groups.cpp, the values and where they were measured in default_costs.cpp.

/// One kind of path between ranks: the alpha-beta model (Hockney 1994; Thakur, Rabenseifner, Gropp
/// 2005, section 3), extended with LogP's overhead (Culler et al. 1993).
///
/// The model has no gamma. Combining a received byte costs as much as copying it, because both wait
/// for the other core's cache lines (reduce compared with broadcast, 64 KiB to 16 MiB, 2 ranks,
/// 2-core virtual Xeon).
struct PathCost {
  double alpha_us = 0;             ///< latency of an empty message, one way, receiver polling
  double step_us = 0;              ///< the executor's own time per step
  double send_us = 0;              ///< extra time of a step that sends
  double send_us_per_byte = 0;     ///< copies a byte into a slot
  double receive_us_per_byte = 0;  ///< copies a byte out of a slot, or combines it
  double slowdown = 1;             ///< factor on both copies for calls larger than the caches
  double inline_bytes = 0;         ///< the longest message that travels inside its cell
  double line_bytes = 0;           ///< the longest that fits in the first cache line of the cell
  double line_us = 0;              ///< extra latency of the second cache line
  double long_us = 0;              ///< extra time of a message longer than inline_bytes
  double page_bytes = 0;  ///< the first bytes of a slot, which no prefetcher has foreseen; they
                          ///< cost more if sender and receiver have cores of their own
  double page_us_per_byte = 0;  ///< extra time for each of them
  double fetched_bytes = 0;     ///< the shortest message that is fetched, where fetching is allowed
  double fetch_us = 0;          ///< fixed time of a fetch
  double fetch_us_per_byte = 0;       ///< fetches a byte; replaces both copies
  double fetch_cold_us_per_byte = 0;  ///< what memory adds at most to a fetched byte of a call
                                      ///< larger than the caches
  friend bool operator==(const PathCost&, const PathCost&) = default;
};

/// Copies within a rank's memory.
struct CopyCost {
  double us_per_byte = 0;
  double slowdown = 1;  ///< factor on it for calls larger than the caches
  /// The executor stages a message to several ranks, that is, writes it once for all of them, if
  /// its bytes for all of them together reach this many.
  double staged_bytes = 0;
  friend bool operator==(const CopyCost&, const CopyCost&) = default;
};

/// Where calls outgrow caches.
struct CacheCost {
  double own_bytes = 1;        ///< a core's own cache, which the core's ranks share
  double fetch_doublings = 1;  ///< of the call's size beyond it, until every fetch is from memory
  /// Where ranks share cores, the ranks of one core use many slots in turn. If these take more than
  /// slot_bytes, they fit neither into the core's caches nor into those of other cores, and a copy
  /// through slots takes cold_slots times as long.
  double slot_bytes = 0;
  double cold_slots = 1;
  friend bool operator==(const CacheCost&, const CacheCost&) = default;
};

/// Ranks that share a core, and readers that share memory.
struct SharingCost {
  /// One change of ranks: a rank that waits for another rank of its core yields the core
  /// (sched_yield) and gets it back later.
  double hand_over_us = 0;
  /// Factor on the time to fetch a byte in cache where ranks share cores: between two copies of one
  /// rank, other ranks have used the core, its caches and its page tables.
  double crowded_fetch = 1;
  /// The same on copies through slots in cache.
  double crowded_copy = 1;
  /// A byte that receivers fetch costs its sender nothing, but readers of the same pages slow each
  /// other down (Chakraborty, Subramoni, Panda, "Contention-Aware Kernel-Assisted MPI Collectives
  /// for Multi-/Many-Core Systems", Cluster 2017): this many readers together cost as much time as
  /// one.
  double readers_at_once = 1;
  /// Factor on the time to fetch a byte of a long message that goes one way between two ranks with
  /// a core each: its sender, which waits, copies a part of it.
  double helped_fetch = 1;
  friend bool operator==(const SharingCost&, const SharingCost&) = default;
};

/// The rules that cut calls before the simulator compares cuts. "Crowded" means that ranks share
/// cores.
struct CutRules {
  double least_slice_bytes = 64;  ///< in a shorter slice the fixed costs are the larger part
  /// Calls of up to this many slices need no second lane: over shared memory one lane fills a slot
  /// while the other empties one; over TCP the kernel's buffers do that.
  double slices_of_one_lane = 1;
  double slices_of_one_socket = 1;
  /// Two ranks that share memory, each with a core of its own: their most lanes. And where each
  /// sends as much as it receives, how many times as long as others their slices are: those of
  /// copies, and those of sums.
  double pair_lanes = 2;
  double pair_slices = 1;
  double pair_sum_slices = 1;
  /// The same of two that TCP joins, whatever the operation.
  double pair_socket_lanes = 2;
  double pair_socket_slices = 1;
  /// The shortest call that lends: lending saves copies and costs time to wait, because the
  /// sender's call ends when the receiver has taken what it lent. A rank that only sends, as in a
  /// broadcast, would not wait without lending.
  double lent_bytes = 0;
  double one_way_lent_bytes = 0;
  double crowded_lent_bytes = 0;
  // The longest call, by operation, whose messages are fetched and not passed through slots.
  double fetched_bytes = 0;  ///< of operations that have no row below
  double all_gather_fetched_bytes = 0;
  double all_to_all_fetched_bytes = 0;
  double crowded_all_gather_fetched_bytes = 0;
  double crowded_all_to_all_fetched_bytes = 0;
  /// A fetch that is measured between two powers of two times the model's counts as the higher one
  /// from this part of it on. Less than the half way, 0.71: a process measures its own memory.
  double fetch_border = 0.71;
  /// The results of an all_reduce are fetched if that takes this many times as long as through
  /// slots, or less: for their sake the inputs are cut coarser, and both measured factors are
  /// rounded.
  double results_fetched = 1;
  /// Operations on unequal blocks of which no rank knows all are planned for blocks of this length.
  double unknown_block_bytes = 1;
  friend bool operator==(const CutRules&, const CutRules&) = default;
};

/// How far the model may be wrong.
struct ModelError {
  double alike = 1;            ///< predictions that differ by less than this factor count as equal
  double described_alike = 1;  ///< the same on a described machine
  /// A candidate that the closed formula finds this many times as slow as the best is not worth a
  /// simulation. The formula knows nothing of who waits for whom on shared cores.
  double hopeless = 1;
  double crowded_hopeless = 1;
  friend bool operator==(const ModelError&, const ModelError&) = default;
};

/// Links of machines with GPUs. A yield is the share of a link's line rate that carries data, after
/// headers, acknowledgements and other overhead. A rate is the one of a link that no source tells.
struct LinkCost {
  double nvlink_yield = 1, xgmi_yield = 1, pcie_yield = 1, network_yield = 1;
  double nvlink_gbytes_per_s = 1, xgmi_gbytes_per_s = 1, pcie_gbytes_per_s = 1;
  double nic_gbytes_per_s = 1;
  double within_gpu_gbytes_per_s = 1;  ///< copied within a GPU's memory, for ranks that share it
  double nic_message_us = 0;           ///< of a NIC per message, including the doorbell
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// Messages between GPUs. First those of described machines, which kernels of a whole call move: a
/// hop costs its alpha if the message is small enough to travel with flags, and long_us more if it
/// is longer. Then those of ranks that met with a GPU each, which operations of streams move.
struct GpuCost {
  double link_alpha_us = 0, link_long_us = 0;
  double pci_alpha_us = 0, pci_long_us = 0;
  double network_alpha_us = 0, network_long_us = 0;
  double step_us = 0;        ///< of a GPU's block per step
  double flagged_bytes = 0;  ///< the longest message that travels with its flags
  double flagged_times = 1;  ///< such a message occupies a link as this many times its bytes would
  double slice_bytes = 64;   ///< the longest slice
  double most_lanes = 1;
  double stream_alpha_us = 0;  ///< from a word's being written to what another stream does then
  double stream_words_us = 0;  ///< at each end of a message: one wait for a word, two writes
  double copy_start_us = 0;    ///< of a copy or a kernel that follows another on its stream
  /// The shortest call of device memory that is planned for streams; a shorter one is copied to the
  /// host and moved there.
  double device_least_bytes = 0;
  double fused_least_bytes = 0;  ///< of such calls, for kernels that wait for one another
  friend bool operator==(const GpuCost&, const GpuCost&) = default;
};

/// What each process measures when ranks meet, on the model's machine. Other constants are scaled
/// by what is measured elsewhere over these (measured_costs.hpp). 0: not known.
struct ProbeCost {
  double copy_us_per_byte = 0;   ///< a copy within a core's own cache
  double fetch_us = 0;           ///< a read of another process's memory, without its bytes
  double fetch_us_per_byte = 0;  ///< infinite where the kernel forbids such reads
  double line_us = 0;            ///< a cache line to another core, one way
  double pass_us_per_byte = 0;   ///< written on one core, copied or combined on another
  double chain_us = 0;           ///< 1,000 multiplications, each of the result of the one before
  double send_us = 0;            ///< a short TCP send over loopback
  friend bool operator==(const ProbeCost&, const ProbeCost&) = default;
};

struct CostConstants {
  PathCost memory;   ///< shared memory
  PathCost kernel;   ///< TCP that does not leave the kernel: loopback, or a pair of virtual devices
  PathCost rdma;     ///< RDMA; its receive_us_per_byte is that of usual links (with_rdma_links)
  PathCost network;  ///< TCP between hosts
  CopyCost copy;
  CacheCost cache;
  SharingCost sharing;
  CutRules cut;
  ModelError error;
  LinkCost link;
  GpuCost gpu;
  ProbeCost probe;
  friend bool operator==(const CostConstants&, const CostConstants&) = default;
};

/// Whether the buffers of a call fit into a core's own cache, which the core's ranks share.
bool in_own_cache(const CostConstants& costs, double bytes, double ranks_per_core);

/// The time to fetch a byte over `path` in a call of `bytes`. Beyond a core's own cache, copies
/// through slots slow down at once; fetches slow down gradually.
double fetched_us_per_byte(const CostConstants& costs, const PathCost& path, double bytes,
                           double ranks_per_core);

}  // namespace coll
