// SPDX-License-Identifier: Apache-2.0
// A communicator's plans, programs and connections.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "communicator/calls/memory_counts.hpp"
#include "communicator/membership/membership.hpp"
#include "executor/executor.hpp"
#include "planner/planner.hpp"

namespace coll {

class DeviceLinks;

/// Where the lanes of a cache's connections begin. Sends and receives run between two ranks only,
/// so they must not share connections with collectives.
struct ProgramLanes {
  std::uint32_t collectives = 0, pairs = 0;
};

/// Finds the program of a call by one look-up, and makes what is not there yet: plans, connections,
/// programs. Connections are shared by all programs.
class ProgramCache {
 public:
  /// Of plans for `world`. No two caches of a communicator share `lanes`. `links`: for an executor
  /// of a GPU.
  ProgramCache(Rank rank, const Membership& membership, const World& world, ProgramLanes lanes,
               Executor& executor, ScratchPool& pool, MemoryCounts& counts,
               DeviceLinks* links = nullptr)
      : rank_(rank),
        membership_(&membership),
        world_(&world),
        lanes_(lanes),
        executor_(executor),
        pool_(pool),
        counts_(counts),
        links_(links) {}
  /// After `stop_reading`. Waits up to 20 ms for peers who are still to read what was staged for
  /// them.
  ~ProgramCache();
  /// No call will run any more: tells the peers that they need keep nothing for this rank. So ranks
  /// that end together do not wait for each other.
  void stop_reading();

  struct Entry {
    Plan plan;
    Schedule schedule;            ///< empty once it is bound
    std::vector<PeerLane> peers;  ///< that it talks to
    std::unique_ptr<Program> program;
  };

  /// The cached program, or null: then `prepare` and `connect` make it.
  Entry* find(const PlanKey& key) {
    Entry* const found = entry(key);
    return found != nullptr && found->program ? found : nullptr;
  }

  [[nodiscard]] const World& world() const { return *world_; }
  /// Plans the class and opens the connections it needs; they may not be ready yet.
  Status prepare(const PlanKey& key);
  /// One round of connecting. True once the program is bound and `find` has it; a failure is a
  /// connection's.
  Result<bool> connect(const PlanKey& key);

 private:
  using PeerAndLane = std::pair<Rank, std::uint32_t>;
  Entry* entry(const PlanKey& key) {
    const auto found = table_.find(key);
    return found == table_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::uint32_t credits_of(const Transport& transport) const;
  [[nodiscard]] bool stages() const;
  [[nodiscard]] std::uint32_t first_lane(Collective collective) const;
  void count(const Program& program, const Entry& of);

  Rank rank_;
  const Membership* membership_;
  const World* world_;
  const ProgramLanes lanes_;
  Executor& executor_;
  ScratchPool& pool_;
  MemoryCounts& counts_;
  DeviceLinks* links_;
  std::map<PeerAndLane, std::unique_ptr<Connection>> connections_;
  std::set<const Connection*> counted_;  ///< in `counts_`
  std::map<PlanKey, Entry> table_;
};

}  // namespace coll
