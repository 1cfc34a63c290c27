// SPDX-License-Identifier: Apache-2.0
// A rank's card as bytes.
#include "communicator/membership/card.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "rendezvous/control_message.hpp"

namespace coll {
namespace {

constexpr std::uint32_t kCardVersion = 17;
constexpr std::uint32_t kMostOffers = 32;
/// Four bytes each are enough: all ranks use what the card has.
constexpr double ProbeCost::*kCardProbes[] = {
    &ProbeCost::copy_us_per_byte, &ProbeCost::fetch_us,         &ProbeCost::fetch_us_per_byte,
    &ProbeCost::line_us,          &ProbeCost::pass_us_per_byte, &ProbeCost::chain_us,
    &ProbeCost::send_us};
constexpr double DeviceCopyCosts::*kCardCopies[] = {
    &DeviceCopyCosts::within_gbytes_per_s, &DeviceCopyCosts::to_host_gbytes_per_s,
    &DeviceCopyCosts::from_host_gbytes_per_s, &DeviceCopyCosts::start_us};
constexpr std::uint64_t kMostSlotBytes = std::uint64_t{1} << 30;

/// CPUs as runs: few bytes where a whole mask has 128.
void write_cpus(const cpu_set_t& cpus, MessageWriter& out) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;  // the first, and how many
  for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    if (runs.empty() || runs.back().first + runs.back().second != cpu) runs.emplace_back(cpu, 0U);
    ++runs.back().second;
  }
  out.u32(static_cast<std::uint32_t>(runs.size()));
  for (const auto& [first, length] : runs) out.u32(first).u32(length);
}

/// False where they make no sense.
bool read_cpus(MessageReader& in, cpu_set_t& cpus) {
  CPU_ZERO(&cpus);
  const std::uint32_t runs = in.u32();
  for (std::uint32_t run = 0; run < runs && in.good(); ++run) {
    const std::uint64_t first = in.u32(), length = in.u32();
    if (first + length > CPU_SETSIZE) return false;
    for (std::uint64_t cpu = first; cpu < first + length; ++cpu) CPU_SET(cpu, &cpus);
  }
  return true;
}

}  // namespace

std::string write_card(const Card& card) {
  MessageWriter out;
  out.u32(kCardVersion)
      .text(card.settings.algorithm)
      .u32(card.settings.lanes)
      .u32(card.settings.slice_bytes)
      .u32(card.settings.credits)
      .u8(static_cast<std::uint8_t>(card.settings.order))
      .text(card.tuning_file)
      .u64(card.tuning_digest)
      .text(card.tuning)
      .text(card.member.host)
      .u64(static_cast<std::uint64_t>(card.member.pid));
  write_cpus(card.cpus, out);
  out.u32(static_cast<std::uint32_t>(card.numa))
      .text(card.device)
      .u8(static_cast<std::uint8_t>(card.gpu_moves))
      .u64(card.process)
      .text(card.ipc_domain);
  for (const auto probe : kCardProbes) {
    out.u32(std::bit_cast<std::uint32_t>(static_cast<float>(card.measured.*probe)));
  }
  for (const auto copy : kCardCopies) {
    out.u32(std::bit_cast<std::uint32_t>(static_cast<float>(card.copies.*copy)));
  }
  out.u32(static_cast<std::uint32_t>(card.offers.size()));
  for (const Card::Offer& offer : card.offers) {
    out.text(offer.transport).u8(offer.viable.ok() ? 1 : 0);
    if (offer.viable.ok()) {
      out.u64(offer.slot_bytes)
          .u64(offer.slice_bytes)
          .u32(std::bit_cast<std::uint32_t>(offer.gbytes_per_s))
          .text(offer.descriptor);
    } else {
      out.failure(*offer.viable.failure());
    }
  }
  return out.bytes();
}

double slowest_links(const std::vector<Card>& cards, std::uint32_t used) {
  float slowest = 0;
  for (std::size_t i = 0; i < cards[0].offers.size(); ++i) {
    if ((used >> i & 1) == 0) continue;
    for (const Card& card : cards) {
      const Card::Offer* const offer = card.offer(cards[0].offers[i].transport);
      if (offer == nullptr || offer->gbytes_per_s == 0) continue;
      slowest = slowest == 0 ? offer->gbytes_per_s : std::min(slowest, offer->gbytes_per_s);
    }
  }
  return slowest;
}

GpuMoves moved_by_all(const std::vector<Card>& cards) {
  return std::ranges::min_element(cards, {}, &Card::gpu_moves)->gpu_moves;
}

Status unreadable(Rank rank, const char* what) {
  return failed(Code::mismatch, "rank " + std::to_string(rank) + " published an unreadable " + what,
                "use the same libcollectives on all ranks")
      .at_rank(rank);
}

Result<Card> read_card(std::string_view bytes, Rank rank) {
  MessageReader in(bytes);
  const std::uint32_t version = in.u32();
  if (in.good() && version != kCardVersion) {
    return failed(Code::unsupported,
                  "rank " + std::to_string(rank) + " describes itself in version " +
                      std::to_string(version) + ", this rank in " + std::to_string(kCardVersion),
                  "use the same libcollectives on all ranks")
        .at_rank(rank);
  }
  Card card;
  card.settings.algorithm = in.text();
  card.settings.lanes = in.u32();
  card.settings.slice_bytes = in.u32();
  card.settings.credits = in.u32();
  const std::uint8_t order = in.u8();
  card.settings.order = order == 0 ? SumOrder::any : SumOrder::tree;
  card.tuning_file = in.text();
  card.tuning_digest = in.u64();
  card.tuning = in.text();
  card.member.host = in.text();
  card.member.pid = static_cast<std::int64_t>(in.u64());
  bool sensible = read_cpus(in, card.cpus) && order <= 1;
  card.numa = static_cast<std::int32_t>(in.u32());
  card.device = in.text();
  const std::uint8_t gpu_moves = in.u8();
  card.gpu_moves = static_cast<GpuMoves>(gpu_moves);
  sensible = sensible && gpu_moves <= static_cast<std::uint8_t>(GpuMoves::everything);
  card.process = in.u64();
  card.ipc_domain = in.text();
  for (const auto probe : kCardProbes) {
    const auto value = std::bit_cast<float>(in.u32());
    sensible = sensible && value >= 0;  // and no NaN
    card.measured.*probe = value;
  }
  for (const auto copy : kCardCopies) {
    const auto value = std::bit_cast<float>(in.u32());
    sensible = sensible && value >= 0 && std::isfinite(value);
    card.copies.*copy = value;
  }
  const std::uint32_t offers = in.u32();
  sensible = sensible && offers <= kMostOffers;
  for (std::uint32_t i = 0; i < offers && sensible && in.good(); ++i) {
    Card::Offer offer;
    offer.transport = in.text();
    const std::uint8_t viable = in.u8();
    if (viable == 0) {
      offer.viable = Status(in.failure());
    } else {
      offer.slot_bytes = in.u64();
      offer.slice_bytes = in.u64();
      offer.gbytes_per_s = std::bit_cast<float>(in.u32());
      offer.descriptor = in.text();
      sensible = viable == 1 && offer.slice_bytes > 0 && offer.slice_bytes <= offer.slot_bytes &&
                 offer.slot_bytes <= kMostSlotBytes && offer.gbytes_per_s >= 0;
    }
    card.offers.push_back(std::move(offer));
  }
  if (!in.whole() || !sensible) return unreadable(rank, "card");
  return card;
}

}  // namespace coll
