// SPDX-License-Identifier: Apache-2.0
// A communicator's plans, programs and connections.
#include "communicator/calls/program_cache.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.hpp"
#include "communicator/membership/device_links.hpp"

namespace coll {
namespace {

/// Peers that are in the same call, and share cores, come to read within this time.
constexpr std::chrono::milliseconds kPatience{20};

}  // namespace

void ProgramCache::stop_reading() {
  for (const auto& [peer, connection] : connections_) {
    Lending* lending = connection ? connection->lending() : nullptr;
    if (lending != nullptr) lending->stop_reading();
  }
}

bool ProgramCache::stages() const {
  return std::ranges::any_of(table_, [](const auto& entry) {
    const std::unique_ptr<Program>& program = entry.second.program;
    return program && program->staging.data() != nullptr;
  });
}

ProgramCache::~ProgramCache() {
  if (!stages()) return;
  const auto all_read = [this] {
    return std::ranges::all_of(connections_, [](const auto& entry) {
      Lending* lending = entry.second ? entry.second->lending() : nullptr;
      return lending == nullptr || lending->all_read();
    });
  };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!all_read() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::uint32_t ProgramCache::first_lane(Collective collective) const {
  const bool pair = collective == Collective::send || collective == Collective::recv;
  return pair ? lanes_.pairs : lanes_.collectives;
}

std::uint32_t ProgramCache::credits_of(const Transport& transport) const {
  if (links_ != nullptr) return links_->credits();
  return membership_->credits != 0 ? membership_->credits : transport.limits().credits;
}

Status ProgramCache::prepare(const PlanKey& key) {
  if (entry(key) != nullptr) return {};
  const auto& [spec, size_class] = key;
  COLL_ASSIGN(const Plan plan, make_plan(*world_, key));
  const Rank rank = spec.ranks == 1 ? 0 : rank_;
  Schedule schedule = plan.algorithm->build(spec, world_->layout, rank);
  std::vector<PeerLane> peers = peers_of(schedule, plan.lanes);
  for (const PeerLane& pair : peers) {
    const std::uint32_t lane = first_lane(spec.collective) + pair.lane;
    std::unique_ptr<Connection>& connection = connections_[{pair.peer, lane}];
    if (connection) continue;
    const PeerPath& path = membership_->paths[static_cast<std::size_t>(pair.peer)];
    Transport& transport = *path.transport;
    const Transport::Limits limits = transport.limits();
    const ConnectionSpec wanted{.peer = pair.peer,
                                .lane = lane,
                                .slot_bytes = limits.slot_bytes,
                                .credits = credits_of(transport),
                                .ranks_per_core = membership_->neighbours.per_core};
    COLL_ASSIGN(connection, transport.open(wanted, path.descriptor));
    if (links_ != nullptr) connection = links_->wrap(std::move(connection), path.of_gpus);
  }
  if (spec.ranks == world_->layout.ranks() && log_enabled(LogLevel::debug)) {
    log(LogLevel::debug, explain(*world_, plan, size_class));
  }
  table_.emplace(key, Entry{plan, std::move(schedule), std::move(peers), nullptr});
  return {};
}

Result<bool> ProgramCache::connect(const PlanKey& key) {
  Entry& made = *entry(key);
  const std::uint32_t base = first_lane(key.spec.collective);
  const auto connection_of = [&](const PeerLane& pair) -> std::unique_ptr<Connection>& {
    return connections_.at({pair.peer, base + pair.lane});
  };
  // Transports ask the kernel: not where other programs have opened all that this one needs.
  if (!std::ranges::all_of(made.peers,
                           [&](const auto& of) { return connection_of(of)->ready(); })) {
    for (const std::unique_ptr<Transport>& transport : membership_->transports) transport->poll();
  }
  for (const PeerLane& pair : made.peers) {
    std::unique_ptr<Connection>& connection = connection_of(pair);
    if (links_ != nullptr) COLL_TRY(links_->poll(connection));
    COLL_TRY(connection->status());
    if (!connection->ready()) return false;
  }
  ProgramShape shape{made.plan.lanes, made.plan.message_chunks, made.plan.slice_bytes,
                     made.plan.digest(), made.plan.loans};
  shape.least_staged = static_cast<std::uint32_t>(world_->costs().copy.staged_bytes);
  for (const std::unique_ptr<Transport>& transport : membership_->transports) {
    shape.credits = std::max(shape.credits, credits_of(*transport));
  }
  const auto connection = [&](Rank peer, std::uint32_t lane) {
    return connections_.at({peer, base + lane}).get();
  };
  COLL_ASSIGN(made.program, executor_.bind(made.schedule, shape, connection, pool_));
  made.schedule = {};
  count(*made.program, made);
  return true;
}

void ProgramCache::count(const Program& program, const Entry& of) {
  const auto add = [](std::atomic<std::uint64_t>& sum, std::uint64_t more) {
    sum.fetch_add(more, std::memory_order_relaxed);
  };
  for (const PeerLane& pair : of.peers) {
    const Connection* const connection =
        connections_.at({pair.peer, first_lane(of.plan.spec.collective) + pair.lane}).get();
    if (!counted_.insert(connection).second) continue;
    add(counts_.connections, 1);
    add(counts_.connection_bytes, connection->buffer_bytes());
  }
  add(counts_.programs, 1);
  add(counts_.program_bytes, sizeof program + program.steps.size() * sizeof(BoundStep) +
                                 program.lanes.size() * sizeof(Program::Lane));
  // The host's is counted by its pool.
  if (links_ != nullptr) add(counts_.program_bytes, program.scratch_bytes * program.lanes.size());
}

}  // namespace coll
