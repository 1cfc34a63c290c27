// SPDX-License-Identifier: Apache-2.0
// The engine: moves the calls of one communicator, however many are in flight.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator/calls/bound_calls.hpp"
#include "communicator/calls/open_call.hpp"
#include "communicator/calls/program_cache.hpp"
#include "communicator/engine/common_failure.hpp"
#include "communicator/engine/device_mover.hpp"
#include "communicator/engine/seat.hpp"
#include "communicator/mail/mail.hpp"
#include "communicator/membership/membership.hpp"
#include "executor/cpu_executor.hpp"
#include "executor/progress.hpp"
#include "executor/scratch_pool.hpp"
#include "executor/wait_policy.hpp"

namespace coll {

class ProgressThread;

/// Collectives begin in the order of their issue, whatever thread issues them; so do the sends to a
/// peer, and the receives from a peer. On each direction of a connection calls take turns in that
/// order. Otherwise they move side by side and end in any order.
///
/// Whoever waits for a call drives: the thread takes the seat, and moves all calls until its own
/// has ended. Where nobody waits, the progress thread drives. The engine alone watches over calls
/// in flight: it sees connections that fail, deadlines that pass, and asks after ranks that keep it
/// waiting.
class Engine {
 public:
  Engine(Rank rank, Rank size, double deadline_s, const WaitPolicy& waiting,
         const Membership& membership, const ResultStore& results, CommonFailure& failure);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { finish(); }
  /// Waits for all calls, and tells the peers that none will come. Nothing may be issued any more.
  void finish() noexcept;
  /// Before the first call.
  void attend_to(Watch& watch) { watch_ = &watch; }
  /// Before the first call: what GPUs have to have by then. All ranks call it.
  Status prepare_devices(const Assembly& meeting) {
    return device_ ? device_->agree_on_exchanges(meeting) : Status();
  }
  /// For the watch.
  [[nodiscard]] const CallBoard& board() const { return board_; }
  [[nodiscard]] const WaitPolicy& waiting() const { return waiting_; }

  /// From any thread.
  [[nodiscard]] CallCounts::Sums counts() const { return bound_.sums(); }
  [[nodiscard]] const MemoryCounts& memory() const { return memory_counts_; }
  [[nodiscard]] const ScratchCounts& scratch() const { return scratch_.counts(); }
  /// The key of a call on this rank.
  [[nodiscard]] PlanKey key_of(const Call& call) const;
  /// What its plan is made from.
  [[nodiscard]] const World& world_of(const Call& call) const {
    const ProgramCache* const by_gpu =
        device_ ? device_->programs_for(call, key_of(call)) : nullptr;
    return by_gpu != nullptr ? by_gpu->world() : programs_.world();
  }
  /// The GPU that moves it; null: the processor does.
  [[nodiscard]] StreamDevice* gpu_of(const Call& call) const {
    if (!device_) [[likely]]
      return nullptr;
    return device_->programs_for(call, key_of(call)) != nullptr ? &device_->gpu() : nullptr;
  }
  /// Who moves it, for a person.
  [[nodiscard]] const char* mover_of(const Call& call) const;

  /// For a request that is to be put on a stream of CUDA: one step of making what repeated calls
  /// have, if nobody else drives. Later that might wait for the stream, which waits for the call.
  /// True: nothing is missing, or it cannot be made, which the call itself will say.
  bool prepares(const Request& request) noexcept;
  /// For a request that is on no stream of CUDA, before it is issued: waits for what the program
  /// has put on the default streams of the GPUs that its buffers lie on. Whoever has the seat must
  /// not wait for a stream, which may wait for another call.
  void await_program(const Request& request) const noexcept;

  /// Runs a request to its end. Allocates nothing if the request repeats.
  Status run(const Request& request) noexcept;

  /// Runs any request to its end, behind what was issued before. `deadline_s` as in OpenCall.
  Status run_queued(const Request& request, double deadline_s = OpenCall::kOwnDeadline) noexcept;
  /// Waits until a message has come that the tagged recv `request` would take, and says which;
  /// Code::in_progress if `timeout_s` pass first (negative: the communicator's deadline).
  Status probe(const Request& request, double timeout_s) noexcept;
  /// Ends the work's tagged recv with Code::aborted, unless it has met its message: then false. For
  /// guests.
  bool cancel(const Work& work) noexcept;

  /// Puts a checked call behind all that were issued before. Its owner keeps it until it has ended,
  /// and says `drive_first` once it holds no locks.
  void issue(OpenCall& call, const std::shared_ptr<ProgressThread>& helper) noexcept;
  /// A call will be issued, by `issue_promised`: until then it keeps the engine alive.
  void promise() noexcept { owned_.fetch_add(1, std::memory_order_relaxed); }
  void break_promise() noexcept { owned_.fetch_sub(1, std::memory_order_release); }
  void issue_promised(OpenCall& call, const std::shared_ptr<ProgressThread>& helper) noexcept {
    enqueue(call, helper);
  }
  /// Sends the first messages of what was issued, if nobody else drives; `helper` goes on while
  /// nobody waits.
  void drive_first(ProgressThread& helper) noexcept;
  /// Keeps the engine from being destroyed.
  class Guest {
   public:
    explicit Guest(Engine& engine) : engine_(&engine) {
      engine_->guests_.fetch_add(1, std::memory_order_relaxed);
    }
    Guest(Guest&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
    Guest& operator=(Guest&&) = delete;
    ~Guest() {
      if (engine_ != nullptr) engine_->guests_.fetch_sub(1, std::memory_order_release);
    }

   private:
    Engine* engine_;
  };
  /// Drives until `done()`, which tells of calls that this engine was issued, or until the
  /// deadline. For guests.
  template <class Done>
  void drive_until(Done done, Deadline deadline = Deadline::max()) noexcept;

  enum class Help {
    moved,
    nothing_moved,
    not_needed,  ///< somebody else drives
  };
  /// For the progress thread: some rounds, if nobody else drives.
  Help help() noexcept;
  /// Adds what would move this engine, if nobody else drives.
  void add_nap_ends(NapEnds& ends) noexcept;
  /// A held call may start now: what it waited for has ended. From any thread, while the call keeps
  /// the engine alive.
  void notice_ready() noexcept { ready_.fetch_add(1, std::memory_order_release); }
  /// No owner has a call in flight.
  [[nodiscard]] bool idle() const { return owned_.load(std::memory_order_acquire) == 0; }

  /// Ends everything on all ranks. From any thread; for guests.
  void abort() noexcept;
  /// Fails every later call with `why`, unless a call is in flight: then it returns false.
  bool retire(const Status& why) noexcept;

 private:
  static constexpr std::uint64_t kOpeningRounds = 64;  ///< between tries to connect
  static constexpr int kTries = 100;  ///< to take the seat, before sleeping until it is free
  static constexpr std::chrono::milliseconds kSleep{100};

  /// A wish to end a recv or probe before it has met its message.
  struct Withdrawal {
    const OpenCall* call = nullptr;  ///< the probe
    const Work* work = nullptr;      ///< the recv's
    bool found = false;              ///< in time
    Withdrawal* next = nullptr;
    std::atomic<bool> done{false};  ///< from then on it may be gone
  };

  // What follows is for the thread that has the seat, but for enqueue and withdraw.
  BoundCall* rebind(const Request& request) noexcept;
  Status finish_alone(const Request& request, const Call& call, BoundCall& bound,
                      std::uint64_t place) noexcept;
  void enqueue(OpenCall& call, const std::shared_ptr<ProgressThread>& helper) noexcept;
  void drive_round(Waiter& waiter) noexcept;
  bool round() noexcept;
  void take_issued() noexcept;
  bool begin_queued() noexcept;
  bool begin(OpenCall& call);
  bool has_to_drain(const Call& call) const;
  bool end_queued() noexcept;
  ProgramCache& programs_for(const Call& call, const PlanKey& key);
  Result<Program*> program_of(const Call& call);
  Status make_ready(const Request& request, const PlanKey& key, bool& ready);
  void post(OpenCall& call) noexcept;
  bool move_mail() noexcept;
  void take_met() noexcept;
  bool look_at_mail(Clock::time_point now) noexcept;
  bool withdraw(Withdrawal& withdrawal) noexcept;
  void serve_withdrawals() noexcept;
  [[nodiscard]] std::string awaited(const OpenCall& call) const noexcept;
  bool release_held() noexcept;
  void end_done() noexcept;
  void look() noexcept;
  bool fail_by_connection() noexcept;
  bool look_at(OpenCall& call, Clock::time_point now) noexcept;
  void fail_all(const Status& verdict) noexcept;
  void end(OpenCall& call, Status status) noexcept;
  void add_open_ends(NapEnds& ends) noexcept;
  void give_up_seat() noexcept;
  /// No guest is left, nor a call of an owner. Guests first: who leaves may have issued a call.
  [[nodiscard]] bool deserted() const {
    return guests_.load(std::memory_order_acquire) == 0 && idle();
  }
  [[nodiscard]] bool quiet() const {
    return open_.empty() && held_.empty() && queued_.empty() && mail_.idle() &&
           !has_issued_.load(std::memory_order_acquire);
  }
  /// Calls that begin one after another. Connections of different orders share no direction: those
  /// of sends and receives are none of the collectives'.
  struct Order {
    std::uint64_t begun = 0;    ///< numbers the calls
    std::uint64_t waiting = 0;  ///< the walk over the queue in which one of it was still opening
  };
  [[nodiscard]] Order& order_of(const Call& call);

  const Rank rank_;
  const Rank size_;
  const double deadline_s_;
  const SumOrder order_;
  const std::uint64_t unknown_block_;  ///< bytes
  const WaitPolicy waiting_;
  CommonFailure& failure_;
  Watch* watch_ = nullptr;

  // --- guarded by the seat
  CallBoard board_;
  ScratchPool scratch_;
  MemoryCounts memory_counts_;
  CpuExecutor executor_;
  ProgramCache programs_;
  ProgramCache tagged_programs_;         ///< of tagged calls that have met
  std::unique_ptr<DeviceMover> device_;  ///< of calls that the ranks' GPUs move
  Mail mail_;                            ///< the others
  BoundCalls bound_;
  Progress progress_;
  Withdrawal* withdrawing_ = nullptr;  ///< taken from `withdrawals_`, not served yet
  CallList queued_;                    ///< not begun, in the order of their issue
  CallList held_;                      ///< begun, but they keep still
  CallList open_;                      ///< they move
  Order collectives_;
  std::vector<Order> sends_, receives_;                ///< by peer
  std::vector<Order> tagged_sends_, tagged_receives_;  ///< that have met; by peer
  std::uint64_t tagged_ = 0;                           ///< numbers those that have not
  std::uint64_t walks_ = 0;                            ///< over the queue
  std::uint64_t rounds_ = 0;
  /// The next round looks after Mail's connections, which takes system calls.
  bool connect_ = false;
  NapEnds nap_ends_;
  std::shared_ptr<ProgressThread> helper_;

  // --- any thread
  Seat seat_;
  std::mutex issue_mutex_;  // guards issued_, withdrawals_ and issued_helper_
  CallList issued_;
  Withdrawal* withdrawals_ = nullptr;
  std::shared_ptr<ProgressThread> issued_helper_;
  std::atomic<bool> has_issued_{false};
  std::atomic<std::uint32_t> ready_{0};  ///< held calls that may start
  std::atomic<std::uint64_t> owned_{0};  ///< calls of owners that have not ended
  std::atomic<std::uint32_t> guests_{0};
  bool finished_ = false;

  friend class ProgressThread;
  Engine* next_attended_ = nullptr;  ///< the next two are the progress thread's
  bool attended_ = false;
};

template <class Done>
void Engine::drive_until(Done done, Deadline deadline) noexcept {
  const auto over = [&] {
    return done() || (deadline != Deadline::max() && Clock::now() >= deadline);
  };
  int tries = 0;
  while (!over()) {
    if (seat_.try_take()) {
      Waiter waiter(waiting_);
      while (!over()) drive_round(waiter);
      give_up_seat();
    } else if (++tries < kTries) {
      std::this_thread::yield();
    } else {
      // Not for long: a call of a group that was not issued ends without this engine's doing.
      seat_.sleep(done, std::min<Deadline>(deadline, Clock::now() + kSleep));
    }
  }
}

}  // namespace coll
