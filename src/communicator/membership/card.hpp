// SPDX-License-Identifier: Apache-2.0
// A rank's card, what it says of itself.
#pragma once
#include <sched.h>

#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/planner.hpp"
#include "planner/tuning_file.hpp"
#include "sys/cuda/device_copy_costs.hpp"
#include "watch/watch.hpp"

namespace coll {

/// What must be the same on all ranks, knobs and tuning table; rank 0's count, others are warned.
struct SharedSettings {
  std::string algorithm;
  std::uint32_t lanes = 0;
  std::uint32_t slice_bytes = 0;
  std::uint32_t credits = 0;
  SumOrder order = SumOrder::any;
  FoundTuning tuning;

  /// All but the tuning, which a process has but once.
  [[nodiscard]] bool same_knobs(const SharedSettings& other) const {
    return algorithm == other.algorithm && lanes == other.lanes &&
           slice_bytes == other.slice_bytes && credits == other.credits && order == other.order;
  }
};

/// Which calls of a rank its GPU can move; each has the ones before it too.
enum class GpuMoves : std::uint8_t {
  nothing,
  copies,      ///< those that do not reduce: it has no kernels
  everything,  ///< those that reduce, too
};

/// What one rank says of itself.
struct Card {
  Member member;
  cpu_set_t cpus{};
  std::int32_t numa = -1;                  ///< the NUMA node that `cpus` are of, if it is one
  std::string device;                      ///< the GPU that it uses, by a lasting_name; "": none
  GpuMoves gpu_moves = GpuMoves::nothing;  ///< by that GPU
  std::uint64_t process = 0;  ///< where it moves some: a number of its process that no other has
  /// GPUs of ranks with the same text here may reach each other by cuda_ipc; "": none may.
  std::string ipc_domain;
  ProbeCost measured;      ///< by this process; 0: not known
  DeviceCopyCosts copies;  ///< of `device`, by this process; 0: not known
  SharedSettings settings;
  /// A transport that the rank was told to use.
  struct Offer {
    std::string transport, descriptor;
    std::uint64_t slot_bytes = 0;
    std::uint64_t slice_bytes = 0;
    float gbytes_per_s = 0;  ///< as Transport::Limits
    Status viable = {};      ///< why it cannot; then the rest means nothing
  };
  std::vector<Offer> offers;
  std::string tuning_file;
  std::uint64_t tuning_digest = 0;  ///< of its table's part for this size; 0: none
  std::string tuning;               ///< rank 0's: that part as text

  [[nodiscard]] const Offer* offer(std::string_view transport) const {
    for (const Offer& offer : offers) {
      if (offer.transport == transport) return &offer;
    }
    return nullptr;
  }
};

/// What is moved by the GPUs of all ranks.
GpuMoves moved_by_all(const std::vector<Card>& cards);

/// What all ranks share comes first, and what the ranks of a host share comes last: `exchange`
/// sends only how a text differs from the text before it.
std::string write_card(const Card& card);

/// Fails where `rank` has another version, or wrote what makes no sense.
Result<Card> read_card(std::string_view bytes, Rank rank);

/// Of all ranks, by those of rank 0's offers whose bits are in `used`, in GB/s; 0: not known.
double slowest_links(const std::vector<Card>& cards, std::uint32_t used);

/// `what` that `rank` published cannot be read.
Status unreadable(Rank rank, const char* what);

}  // namespace coll
