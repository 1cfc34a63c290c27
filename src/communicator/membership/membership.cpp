// SPDX-License-Identifier: Apache-2.0
// What all ranks learn of all ranks, and agree on.
#include "communicator/membership/membership.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "communicator/membership/fused_kernels_of.hpp"
#include "communicator/membership/membership_steps.hpp"
#include "communicator/membership/settings_on_cards.hpp"
#include "sys/machine/core_costs.hpp"
#include "sys/machine/memory_costs.hpp"
#include "sys/machine/numa_node.hpp"
#include "sys/memory/peer_file.hpp"
#include "sys/net/loopback_costs.hpp"
#include "sys/net/net_interfaces.hpp"

namespace coll {
namespace {

struct NotViable {
  Rank where = kNoRank;
  Status why;
};

/// Why a transport of rank 0's cannot join these two; nothing where it may.
std::optional<NotViable> not_viable(const std::vector<Card>& cards, const std::string& transport,
                                    Rank one, Rank two) {
  for (const Rank rank : {Rank{0}, one, two}) {
    const Card::Offer* offer = cards[static_cast<std::size_t>(rank)].offer(transport);
    if (offer == nullptr) {
      return NotViable{rank, failed(Code::unreachable, "its COLL_TRANSPORTS does not name it")};
    }
    if (!offer->viable.ok()) return NotViable{rank, offer->viable};
  }
  return std::nullopt;
}

/// A transport of this rank, and the name that it has on the card.
struct Offered {
  std::string_view name;
  Transport* transport;
};

/// The best transport of both: rank 0's order is everybody's.
Status choose_path(const std::vector<Card>& cards, const std::vector<Offered>& offered, Rank rank,
                   Rank peer, Membership& out, Reach& reach) {
  const Card& mine = cards[static_cast<std::size_t>(rank)];
  const Card& theirs = cards[static_cast<std::size_t>(peer)];
  std::string reasons;
  Rank at_fault = peer;
  bool spent = false;
  for (std::size_t i = 0; i < cards[0].offers.size(); ++i) {
    const Card::Offer& wanted = cards[0].offers[i];
    if (const auto without = not_viable(cards, wanted.transport, rank, peer)) {
      reasons += " " + wanted.transport + ": not viable on rank " + std::to_string(without->where) +
                 ": " + without->why.text() + ";";
      // What can be mended there is said of the first rank that lacks something.
      if (without->why.code() == Code::out_of_resources && !spent) {
        spent = true;
        at_fault = without->where;
      }
      continue;
    }
    const Card::Offer* const there = theirs.offer(wanted.transport);
    for (const auto& [name, transport] : offered) {
      if (name != wanted.transport) continue;
      const Status accepted = transport->accepts(there->descriptor);
      if (!accepted.ok()) {
        reasons += " " + wanted.transport + ": " + accepted.text() + ";";
        continue;
      }
      PeerPath& chosen = out.paths[static_cast<std::size_t>(peer)];
      chosen = {transport, there->descriptor, wanted.transport};
      const PathCapabilities path = chosen.capabilities();
      chosen.of_gpus = !mine.ipc_domain.empty() && mine.ipc_domain == theirs.ipc_domain;
      reach.used |= std::uint32_t{1} << i;
      reach.kinds.add(path);
      if (path.shares_memory) reach.host = std::min(reach.host, peer);
      return {};
    }
  }
  return failed(spent ? Code::out_of_resources : Code::unreachable,
                "rank " + std::to_string(rank) + " (" + mine.member.host +
                    ") has no path to rank " + std::to_string(peer) + " (" + theirs.member.host +
                    "):" + reasons,
                spent ? "free or raise there what is named"
                      : "allow another transport with COLL_TRANSPORTS or another interface with "
                        "COLL_INTERFACE; COLL_LOG=info says which paths were tried")
      .at_rank(at_fault);
}

bool share_memory(const PathCapabilities& path) {
  return path.shares_memory;
}

/// Writes the seating of this rank's host, if it is the first there; and that of the ranks whose
/// GPUs may reach each other, if it is the first of them and they are not the same ranks.
void write_seatings(const std::vector<Card>& cards, Rank rank, const Reach& reach,
                    const Membership& membership, const OwnPlace& own, MessageWriter& out) {
  const auto seat = [&](Rank first, const std::vector<Rank>& ranks) {
    if (first != rank) return Seating{};
    return seat_host(cards, ranks, ranks.size() == cards.size(), own.described);
  };
  const std::vector<Rank> near = with_peers(rank, membership, share_memory);
  seat(reach.host, near).write(out);
  const std::vector<Rank> firsts = firsts_of_gpus(cards);
  const Rank first = firsts[static_cast<std::size_t>(rank)];
  std::vector<Rank> reached;
  for (std::size_t r = 0; r < firsts.size(); ++r)
    if (firsts[r] == first) reached.push_back(static_cast<Rank>(r));
  const bool apart = first == rank && reached != near && moved_by_all(cards) != GpuMoves::nothing;
  out.u8(apart ? 1 : 0);
  if (apart) seat(first, reached).write(out);
}

/// False where they make no sense.
bool read_seatings(MessageReader& in, Seating& of_host, Seating& of_gpus) {
  std::optional<Seating> host = Seating::read(in);
  std::optional<Seating> gpus = in.u8() != 0 ? Seating::read(in) : host;
  if (!host || !gpus) return false;
  of_host = *std::move(host);
  of_gpus = *std::move(gpus);
  return true;
}

/// What this process measures of its machine, once. Sockets only where they come first.
ProbeCost own_measurements(bool sockets) {
  const MemoryCosts& memory = memory_costs();
  const CoreCosts& core = core_costs();
  return {.copy_us_per_byte = memory.copy_us_per_byte,
          .fetch_us = memory.fetch_us,
          .fetch_us_per_byte = memory.fetch_us_per_byte,
          .line_us = core.line_us,
          .pass_us_per_byte = core.pass_us_per_byte,
          .chain_us = core.chain_us,
          .send_us = sockets ? loopback_send_us() : 0};
}

std::string known_transports() {
  std::string text = "the known ones are:";
  for (const NamedTransport& known : named_transports()) {
    text.append(" ").append(known.name);
  }
  return text.append(", and ").append(kCudaIpc).append(" beside them");
}

}  // namespace

Result<std::vector<TransportChoice>> transport_choices(std::string_view names) {
  std::vector<TransportChoice> choices;
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    names = comma == std::string_view::npos ? std::string_view{} : names.substr(comma + 1);
    if (name == kCudaIpc) {
      choices.push_back({std::string(name), nullptr});
      continue;
    }
    const auto found = std::ranges::find(named_transports(), name, &NamedTransport::name);
    if (found == named_transports().end()) {
      return failed(Code::invalid_argument,
                    "COLL_TRANSPORTS names the unknown transport \"" + std::string(name) + "\"",
                    known_transports());
    }
    choices.push_back({std::string(found->name), found->make});
  }
  if (std::ranges::none_of(choices,
                           [](const TransportChoice& each) { return each.make != nullptr; })) {
    return failed(Code::invalid_argument,
                  choices.empty() ? "COLL_TRANSPORTS is empty"
                                  : "COLL_TRANSPORTS names no transport between processes",
                  known_transports());
  }
  return choices;
}

Result<Membership> agree_on_membership(const Assembly& meeting,
                                       const std::vector<TransportChoice>& choices,
                                       const std::string& interface, const SharedSettings& settings,
                                       const Result<OwnPlace>& own) {
  const auto size = static_cast<std::size_t>(meeting.size);
  if (size == 1) COLL_TRY(own.status());
  Membership out;
  out.paths.resize(size);

  Card mine;
  mine.member = {host_name(), getpid()};
  CPU_ZERO(&mine.cpus);
  sched_getaffinity(0, sizeof mine.cpus, &mine.cpus);
  if (size > 1) mine.numa = numa_node_of(mine.cpus);
  if (own.ok()) {
    mine.device = own->device;
    const OwnGpu gpu = size > 1 ? gpu_of(*own) : OwnGpu{};
    mine.gpu_moves = gpu.moves;
    out.gpu = gpu.device;
    if (out.gpu != nullptr) {
      mine.process = number_of_process();
      if (std::ranges::find(choices, kCudaIpc, &TransportChoice::name) != choices.end())
        mine.ipc_domain = domain_of_peer_files();
      mine.copies = device_copy_costs(out.gpu->ordinal());
    }
  }
  out.own = mine;
  put_settings(settings, meeting.rank, meeting.size, mine);
  TransportSpec spec{
      meeting.rank, meeting.size, {meeting.job[0], meeting.job[1]}, interface, meeting.one_network};
  spec.numa_node = mine.numa;
  spec.gpu = mine.device;
  std::vector<Offered> offered;
  for (const TransportChoice& choice : choices) {
    if (size == 1) break;  // one rank costs nothing
    if (!choice.make) continue;
    Result<std::unique_ptr<Transport>> made = choice.make(spec);
    if (!made.ok()) {
      // All ranks go on without it. If only a resource is lacking, that deserves a warning.
      const bool spent = made.status().code() == Code::out_of_resources;
      log(spent ? LogLevel::warn : LogLevel::info,
          "transport " + choice.name + " is not viable: " + made.status().text());
      Card::Offer& none = mine.offers.emplace_back();
      none.transport = choice.name;
      none.viable = made.status();
      continue;
    }
    const Transport::Limits limits = (*made)->limits();
    mine.offers.push_back({choice.name, (*made)->descriptor(), limits.slot_bytes,
                           limits.slice_bytes, static_cast<float>(limits.gbytes_per_s)});
    offered.push_back({choice.name, made->get()});
    out.transports.push_back(*std::move(made));
  }

  if (size > 1) {
    const bool sockets =
        !offered.empty() &&
        offered.front().transport->path(mine.offer(offered.front().name)->descriptor).medium !=
            PathMedium::memory;
    out.own.measured = mine.measured = own_measurements(sockets);
  }
  COLL_ASSIGN(const std::vector<std::string> texts, meeting.exchange(write_card(mine)));
  std::vector<Card> cards;
  for (std::size_t r = 0; r < size; ++r) {
    COLL_ASSIGN(Card card, read_card(texts[r], static_cast<Rank>(r)));
    cards.push_back(std::move(card));
  }
  out.offers = cards[0].offers;
  for (Card::Offer& offer : out.offers) offer.descriptor.clear();

  // Every rank publishes what its choices mean for all, or why it has none, so that all fail
  // together and see one world.
  Reach reach{.host = meeting.rank, .used = 0, .kinds = {}, .fused = false};
  Status trouble;
  if (!own.ok()) {
    trouble = own.status()
                  .with_context("rank " + std::to_string(meeting.rank) + " on " + mine.member.host)
                  .at_rank(meeting.rank);
  }
  for (Rank peer = 0; peer < meeting.size && trouble.ok(); ++peer) {
    if (peer != meeting.rank) {
      trouble = choose_path(cards, offered, meeting.rank, peer, out, reach);
    }
  }
  if (trouble.ok() && out.gpu != nullptr) {
    out.fused = fused_kernels_of(cards, meeting.rank, *out.gpu, reach.gpu_memory);
    reach.fused = out.fused != nullptr;
  }
  MessageWriter verdict;
  verdict.u8(trouble.ok() ? 1 : 0);
  if (trouble.ok()) {
    reach.write(verdict);
    write_seatings(cards, meeting.rank, reach, out, *own, verdict);
  } else {
    verdict.failure(*trouble.failure());
  }
  COLL_ASSIGN(const std::vector<std::string> verdicts, meeting.exchange(verdict.bytes()));
  std::vector<Reach> reaches(size);
  Seatings seatings{std::vector<Seating>(size), std::vector<Seating>(size)};
  for (std::size_t r = 0; r < size && size > 1; ++r) {
    MessageReader in(verdicts[r]);
    if (in.u8() == 0 && in.good()) {
      Status failure(in.failure());
      return in.whole() ? failure : unreadable(static_cast<Rank>(r), "reason to fail");
    }
    const auto one = Reach::read(in, static_cast<Rank>(r), cards[0]);
    if (!one || !read_seatings(in, seatings.hosts[r], seatings.gpus[r]) || !in.whole()) {
      return unreadable(static_cast<Rank>(r), "choice of paths");
    }
    reaches[r] = *one;
  }
  COLL_TRY(finish_membership(cards, reaches, seatings, meeting.rank, out));
  COLL_ASSIGN(const bool fused,
              all_ranks_have_fused_kernels(meeting, reaches, out.gpu, out.fused.get()));
  if (fused) {
    out.fused_world =
        world_of_gpus(out.world, cards, seatings.gpus, meeting.rank, DeviceMoves::by_fused_kernels);
  }
  return out;
}

}  // namespace coll
