// SPDX-License-Identifier: Apache-2.0
// The communicator, from joining to leaving.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "communicator/membership.hpp"
#include "communicator/program_cache.hpp"
#include "communicator/result_store.hpp"
#include "communicator/turn_gate.hpp"
#include "executor/cpu_executor.hpp"
#include "executor/drive.hpp"
#include "watch/call_board.hpp"
#include "watch/watch.hpp"

namespace coll {

/// One operation as the user asked for it.
struct Request {
  Call call;
  const void* input = nullptr;
  void* output = nullptr;

  friend bool operator==(const Request&, const Request&) = default;
};

/// Do two buffers share a byte?
bool overlap(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes);

/// How to join. Everything is decided: configs and knobs are merged by the caller.
struct Joining {
  MeetingPlace place;
  Rank rank = 0;
  Rank size = 1;
  double deadline_s = 600;  ///< 0: for ever
  double connect_s = 60;
  double spin_us = 1000;
  std::string interface;
  std::vector<TransportChoice> transports;
  SharedSettings settings;
};

class Communicator {
 public:
  /// Meets the other ranks; returns when all are there.
  static Result<std::unique_ptr<Communicator>> join(const Joining& joining);
  /// One that refuses every call with `why`.
  static std::unique_ptr<Communicator> refusing(Rank rank, Rank size, const Status& why);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Waits for outstanding operations, then leaves.
  ~Communicator();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank size() const { return size_; }
  [[nodiscard]] const World& world() const { return membership_.world; }

  /// Is the request right as far as this rank can tell? Pointers, ranges, overlap. No
  /// communication.
  [[nodiscard]] Status check(const Request& request) const;

  /// Checks and runs a request: waits for its turn, then for its end. Memory that runs out
  /// meanwhile is a failure like any other: it becomes all ranks', and stays.
  Status run(const Request& request) {
    const std::uint64_t turn = gate_.take();
    return run_in_turn(request, turn);
  }
  /// For streams: the turn is taken when the user calls, the operation runs later.
  std::uint64_t take_turn() { return gate_.take(); }
  Status run_in_turn(const Request& request, std::uint64_t turn) noexcept;

  /// The sticky failure. From any thread.
  [[nodiscard]] Status status() const;
  /// Its text, "" while there is none; lives as long as the communicator.
  [[nodiscard]] const char* status_text();
  /// Ends everything on all ranks. From any thread.
  Status abort();

  /// For the process's end: refuses calls from now on, if nobody is inside one (else false). Then
  /// `leave`, or both halves of it where several leave; the destructor does it too.
  bool retire() noexcept;
  void start_leaving() noexcept { watch_->start_leaving(); }
  void leave() noexcept { watch_->leave(); }

  /// For a person: how a call of `count` elements would run.
  Result<std::string> explain_call(Collective collective, std::uint64_t count, DataType type) const;

 private:
  Communicator(const Joining& joining, Membership membership);
  Status start(Meeting meeting, double spin_us);

  /// A request that was checked and bound to its program. Most calls repeat, buffers included (a
  /// training step's gradients): one compare then finds all that the call needs.
  struct BoundCall {
    Request request;
    Run run;
    std::uint64_t digest = 0;  ///< of all but the number
  };

  Status execute(const Request& request) noexcept;
  Status carry_out(const Request& request, BoundCall& bound, bool known, const Call& call);
  Status bind(const Request& request, const Call& call, BoundCall& bound);
  Status open(const CollectiveSpec& spec, std::uint32_t size_class, const Call& call);
  Status finish_call(const Call& call, const Run& run);
  Status settle(const Status& failure, const Call& call, Rank peer) noexcept;
  Status verdict_on(const Status& failure, const Call& call, Rank peer);
  [[nodiscard]] std::uint64_t& numbers(const Call& call);
  BoundCall& place_of(const Request& request);

  Rank rank_;
  Rank size_;
  double deadline_s_;
  Membership membership_;
  ResultStore results_;
  CallBoard board_;
  std::unique_ptr<Watch> watch_;
  ProgramCache programs_;
  CpuExecutor executor_;
  Progress progress_{executor_};
  std::unique_ptr<Driver> driver_;
  TurnGate gate_;
  std::uint64_t sequence_ = 0;
  std::vector<std::uint64_t> sends_, receives_;  ///< by peer
  static constexpr std::size_t kBoundCalls = 32;
  std::array<BoundCall, kBoundCalls> bound_;
  mutable std::mutex failure_mutex_;
  Status failure_;
  std::string status_text_;  ///< handed out, so it never changes
  std::atomic<bool> failed_{false};
};

}  // namespace coll
