// SPDX-License-Identifier: Apache-2.0
// The communicator, from joining to leaving.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/calls/result_store.hpp"
#include "communicator/engine/common_failure.hpp"
#include "communicator/engine/engine.hpp"
#include "communicator/membership/duplicate_membership.hpp"
#include "communicator/membership/membership.hpp"
#include "communicator/membership/part_membership.hpp"
#include "watch/watch.hpp"

namespace coll {

/// How to join. Everything is decided: configs and knobs are merged by the caller.
struct Joining {
  MeetingPlace place;
  Rank rank = 0;
  Rank size = 1;
  double deadline_s = 600;  ///< 0: for ever
  double connect_s = 60;
  double spin_us = 1000;
  std::string interface;
  std::string name;  ///< for a person
  std::vector<TransportChoice> transports;
  SharedSettings settings;
  NamedDevice device;
};

/// What a rank of a topic knows of the others before they are a communicator.
struct Acquaintance {
  std::optional<Kinship> kin;            ///< as for `start_part`
  std::optional<PartStart> start;        ///< of this rank, if it has told the others
  std::vector<std::string> texts{};      ///< then: those of all ranks; none: to be exchanged yet
  std::unique_ptr<Membership> agreed{};  ///< of a duplicate: nothing is to be agreed on
};

/// This rank's, as it wants to join.
PartStart start_part(const Assembly& part, const Kinship* kin, const Joining& joining);

/// The ranks of a communicator on the plane that carries its topic.
struct PlaneSeats {
  std::shared_ptr<ControlPlane> plane;  ///< none, if there is one rank
  std::vector<Rank> members;            ///< by rank of the communicator: the plane's ranks
  Rank hub = 0;                         ///< of the communicator
  std::uint64_t topic = 0;              ///< the communicator's
};

/// How a call would run.
struct CallPrediction {
  Plan plan;
  double us = 0;
  Traffic traffic;  ///< of this rank
};

class Communicator {
 public:
  /// Meets the other ranks; returns when all are there.
  static Result<std::unique_ptr<Communicator>> join(const Joining& joining);
  /// The same of the ranks of a topic, which need not meet.
  static Result<std::unique_ptr<Communicator>> join(const Joining& joining,
                                                    std::unique_ptr<Topic> topic,
                                                    Acquaintance known);
  /// One that refuses every call with `why`.
  static std::unique_ptr<Communicator> refusing(Rank rank, Rank size, const Status& why);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Waits for outstanding operations, then leaves.
  ~Communicator();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const World& world() const { return membership_.world; }
  [[nodiscard]] const PlaneSeats& seats() const { return seats_; }
  /// For communicators made from this one.
  [[nodiscard]] const Membership& membership() const { return membership_; }
  /// Numbers the duplicates. All ranks make them, so they count alike.
  std::uint64_t count_duplicate() {
    return duplicates_.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  /// Checks and runs a request to its end. Memory that runs out meanwhile is a failure like any
  /// other: it becomes all ranks', and stays.
  Status run(const Request& request) noexcept { return engine_.run(request); }
  /// The same for a request with extras.
  Status run_queued(const Request& request, double deadline_s = OpenCall::kOwnDeadline) noexcept {
    return engine_.run_queued(request, deadline_s);
  }
  /// As Engine's.
  Status probe(const Request& request, double timeout_s) noexcept {
    return engine_.probe(request, timeout_s);
  }
  /// For streams, which issue checked calls.
  [[nodiscard]] Engine& engine() { return engine_; }

  /// Has a stream of CUDA ever captured an operation? From then on such streams order operations.
  [[nodiscard]] bool was_captured() const { return was_captured_.load(std::memory_order_relaxed); }
  void note_capture() noexcept { was_captured_.store(true, std::memory_order_relaxed); }

  /// The sticky failure. From any thread.
  [[nodiscard]] Status status() const { return failure_.status(); }
  /// Its text, "" while there is none; lives as long as the communicator.
  [[nodiscard]] const char* status_text() { return failure_.text(); }
  /// Ends everything on all ranks. From any thread.
  Status abort();

  /// For the process's end: refuses calls from now on, if nobody is inside one (else false). Then
  /// `leave`, or both halves of it where several leave; the destructor does it too.
  bool retire() noexcept;
  void start_leaving() noexcept { watch_->start_leaving(); }
  void leave() noexcept;

  /// Without running it; the call is checked (check_call). A big schedule takes some milliseconds.
  Result<CallPrediction> predict_call(const Request& request) const;
  /// Counts the calls that have succeeded. Any thread may ask.
  [[nodiscard]] CallCounts::Sums counts() const { return engine_.counts(); }
  [[nodiscard]] const MemoryCounts& memory() const { return engine_.memory(); }
  [[nodiscard]] const ScratchCounts& scratch() const { return engine_.scratch(); }
  /// For a person: how the call would run.
  Result<std::string> explain_call(const Call& call) const;

 private:
  Communicator(const Joining& joining, Membership membership);
  Status start(std::unique_ptr<Topic> topic);

  Rank rank_;
  Rank size_;
  const std::string name_;
  Membership membership_;
  ResultStore results_;
  CommonFailure failure_;
  Engine engine_;
  PlaneSeats seats_;
  std::unique_ptr<Watch> watch_;
  std::atomic<std::uint64_t> duplicates_{0};
  std::atomic<bool> was_captured_{false};
};

}  // namespace coll
