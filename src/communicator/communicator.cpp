// SPDX-License-Identifier: Apache-2.0
// The communicator, from joining to leaving.
#include "communicator/communicator.hpp"

#include <algorithm>
#include <bit>
#include <exception>

#include "base/log.hpp"
#include "base/made_once.hpp"
#include "communicator/call_digest.hpp"
#include "sys/clock.hpp"

namespace coll {
namespace {

/// After this long without progress a rank asks whether the others are in the same call at all;
/// then again after twice as long, and so on.
constexpr double kFirstDoubt_s = 0.3;
constexpr double kLongestPatience_s = 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const CoreCaches& own_caches() {
  return made_once([] { return core_caches(); });
}

}  // namespace

bool overlap(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a),
             second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && first + a_bytes > second && second + b_bytes > first;
}

Result<std::unique_ptr<Communicator>> Communicator::join(const Joining& joining) {
  const Deadline deadline = after(joining.connect_s);
  COLL_ASSIGN(Meeting meeting, meet(joining.place, joining.rank, joining.size, deadline));
  COLL_ASSIGN(Membership membership,
              agree_on_membership(meeting, joining.transports, joining.interface, joining.settings,
                                  deadline));
  std::unique_ptr<Communicator> made(new Communicator(joining, std::move(membership)));
  COLL_TRY(made->start(std::move(meeting), joining.spin_us));
  return made;
}

Communicator::Communicator(const Joining& joining, Membership membership)
    : rank_(joining.rank),
      size_(joining.size),
      deadline_s_(joining.deadline_s),
      membership_(std::move(membership)),
      results_(own_caches(), membership_.neighbours),
      programs_(joining.rank, membership_),
      sends_(static_cast<std::size_t>(joining.size)),
      receives_(static_cast<std::size_t>(joining.size)) {}

Status Communicator::start(Meeting meeting, double spin_us) {
  COLL_ASSIGN(watch_, start_watch(std::move(meeting), membership_.members, board_));
  driver_ = std::make_unique<Driver>(
      progress_, WaitPolicy{spin_us, membership_.neighbours.crowded()}, &watch_->failed_flag());
  return {};
}

std::unique_ptr<Communicator> Communicator::refusing(Rank rank, Rank size, const Status& why) {
  Joining joining;
  joining.rank = rank;
  joining.size = size;
  std::unique_ptr<Communicator> made(new Communicator(joining, {}));
  made->failure_ = why;
  made->failed_.store(true, std::memory_order_release);
  return made;
}

bool Communicator::retire() noexcept {
  if (!gate_.take_if_idle()) return false;
  {
    const std::lock_guard lock(failure_mutex_);
    try {
      if (failure_.ok()) {
        failure_ = failed(Code::invalid_usage,
                          "rank " + std::to_string(rank_) +
                              " has left the communicator: its process is inside exit",
                          "call operations before main returns or exit is called");
      }
    } catch (const std::exception&) {
      failure_ = status_of_exception();
    }
    failed_.store(true, std::memory_order_release);
  }
  gate_.pass();
  return true;
}

Communicator::~Communicator() {
  gate_.drain();
  programs_.stop_reading();
  if (watch_) watch_->leave();
}

Status Communicator::run_in_turn(const Request& request, std::uint64_t turn) noexcept {
  gate_.wait(turn);
  const Status status = execute(request);
  gate_.pass();
  return status;
}

/// Who counts such calls: all ranks count collectives alike, the two ranks of a pair count what
/// they exchange.
std::uint64_t& Communicator::numbers(const Call& call) {
  if (call.collective == Collective::send) return sends_[static_cast<std::size_t>(call.root)];
  if (call.collective == Collective::recv) return receives_[static_cast<std::size_t>(call.root)];
  return sequence_;
}

/// Where the request is kept if it was bound before.
Communicator::BoundCall& Communicator::place_of(const Request& request) {
  const std::uint64_t key =
      (reinterpret_cast<std::uintptr_t>(request.input) +
       3 * reinterpret_cast<std::uintptr_t>(request.output) + request.call.count * 5 +
       static_cast<std::uint64_t>(request.call.collective)) *
      0x9e3779b97f4a7c15ULL;  // Fibonacci hashing (Knuth, TAOCP 3, section 6.4)
  static_assert(std::has_single_bit(kBoundCalls));
  return bound_[key >> (64 - std::countr_zero(kBoundCalls))];
}

Status Communicator::execute(const Request& request) noexcept {
  if (failed_.load(std::memory_order_relaxed) || watch_->failed()) [[unlikely]] {
    return status();
  }
  BoundCall& bound = place_of(request);
  const bool known = bound.run.program != nullptr && bound.request == request;
  Call call = request.call;
  try {
    if (!known) COLL_TRY(check(request));
  } catch (const std::exception&) {
    return status_of_exception();  // refused at the door: nothing has begun
  }
  call.sequence = ++numbers(call);
  board_.enter(call);
  Status status;
  try {
    status = carry_out(request, bound, known, call);
  } catch (const std::exception&) {
    status = settle(status_of_exception(), call, kNoRank);
  }
  if (!status.ok() && !bound.run.done()) [[unlikely]]
    progress_.abandon(bound.run);
  board_.leave();
  return status;
}

Status Communicator::carry_out(const Request& request, BoundCall& bound, bool known,
                               const Call& call) {
  if (!known) COLL_TRY(bind(request, call, bound));
  bound.run.call.digest = numbered(bound.digest, call.sequence);
  progress_.begin(bound.run);
  progress_.poll();
  if (bound.run.done()) return {};  // nothing to wait for
  return finish_call(call, bound.run);
}

/// Finds the request's program, or makes it, and keeps what the call needs.
Status Communicator::bind(const Request& request, const Call& call, BoundCall& bound) {
  const CollectiveSpec spec{call.collective, size_, has_root(call.collective) ? call.root : 0};
  const std::uint64_t block_bytes = call.count * size_of(call.type);
  const std::uint32_t size_class =
      coll::size_class(block_bytes * whole_blocks(call.collective, size_));
  ProgramCache::Entry* entry = programs_.find(spec.collective, spec.root, size_class);
  if (entry == nullptr) {
    COLL_TRY(open(spec, size_class, call));
    entry = programs_.find(spec.collective, spec.root, size_class);
  }
  bound.digest = digest_of(call, rank_, entry->program->shape.plan_digest);
  CallBinding binding;
  binding.input = static_cast<const std::byte*>(request.input);
  binding.output = static_cast<std::byte*>(request.output);
  binding.count = call.count;
  binding.element_bytes = size_of(call.type);
  binding.kernels = reduces(call.collective) ? &reduce::kernels(call.op, call.type) : nullptr;
  const BlockShape shape = block_shape(call.collective, size_, spec.root, rank_);
  // Buffers that meet are in place: the door let nothing else pass.
  binding.apart = !overlap(request.input, block_bytes * shape.input, request.output,
                           block_bytes * shape.output);
  binding.store = results_.of(block_bytes * shape.output);
  bound.run.bind(*entry->program, binding);
  bound.request = request;
  return {};
}

/// Drives the started call to its end; asks after the others when nothing moves.
Status Communicator::finish_call(const Call& call, const Run& run) {
  double waited_s = 0;
  const auto until_deadline = [&](double wish_s) {
    return deadline_s_ > 0 ? std::min(wish_s, deadline_s_ - waited_s) : wish_s;
  };
  double patience_s = until_deadline(kFirstDoubt_s);
  while (true) {
    switch (driver_->drive(run, patience_s)) {
      case Driver::Outcome::done:
        return {};
      case Driver::Outcome::stopped:
        return settle(watch_->failure(), call, kNoRank);
      case Driver::Outcome::failed: {
        const Connection& connection = *failed_connection(run);
        return settle(connection.status(), call, connection.peer());
      }
      case Driver::Outcome::idle:
        waited_s = driver_->moved() ? patience_s : waited_s + patience_s;
        break;
    }
    if (watch_->failed()) return settle(watch_->failure(), call, kNoRank);
    if (deadline_s_ > 0 && waited_s >= deadline_s_) {
      return settle(watch_->report_deadline(call, waited_s), call, kNoRank);
    }
    if (!call.is_pair()) watch_->doubt(call);
    patience_s = until_deadline(std::min(2 * patience_s, kLongestPatience_s));
  }
}

/// Opens what the call needs and nobody needed before. The other ranks do the same in the same
/// call.
Status Communicator::open(const CollectiveSpec& spec, std::uint32_t size_class, const Call& call) {
  if (Status prepared = programs_.prepare(spec, size_class); !prepared.ok()) {
    return settle(prepared, call, prepared.rank());
  }
  const Clock::time_point start = Clock::now();
  double next_doubt_s = kFirstDoubt_s;
  WaitPolicy patient;
  patient.spin_us = 0;  // connecting takes system calls and scheduling: nap from the start
  patient.crowded = true;
  Waiter waiter(patient);
  while (true) {
    Result<bool> connected = programs_.connect(spec, size_class);
    if (!connected.ok()) return settle(connected.status(), call, connected.status().rank());
    if (*connected) return {};
    if (!waiter.turn({})) continue;
    if (watch_->failed()) return settle(watch_->failure(), call, kNoRank);
    const double waited_s = seconds_since(start);
    if (deadline_s_ > 0 && waited_s >= deadline_s_) {
      return settle(watch_->report_deadline(call, waited_s), call, kNoRank);
    }
    if (waited_s > next_doubt_s) {
      if (!call.is_pair()) watch_->doubt(call);
      next_doubt_s *= 2;
    }
  }
}

/// Makes a failure everybody's and sticky. What sticks is what all ranks agreed on, word for word;
/// only what this call returns names this rank's call, where the failure came from none.
Status Communicator::settle(const Status& failure, const Call& call, Rank peer) noexcept {
  Status verdict;
  try {
    verdict = verdict_on(failure, call, peer);
  } catch (const std::exception&) {
    verdict = watch_->report(status_of_exception());
  }
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.ok()) failure_ = verdict;
    failed_.store(true, std::memory_order_release);
    verdict = failure_;
  }
  try {
    return verdict.in_call(call.text());
  } catch (const std::exception&) {
    return verdict;
  }
}

Status Communicator::verdict_on(const Status& failure, const Call& call, Rank peer) {
  if (watch_->failed()) return watch_->failure();
  if (failure.code() == Code::mismatch) return watch_->report_mismatch(call, peer, failure);
  return watch_->report(failure.in_call(call.text()));
}

Status Communicator::status() const {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return failure_;
  }
  return watch_->failed() ? watch_->failure() : Status{};
}

const char* Communicator::status_text() {
  const Status now = status();
  const std::lock_guard lock(failure_mutex_);
  if (status_text_.empty() && !now.ok()) status_text_ = now.text();
  return status_text_.c_str();
}

Status Communicator::abort() {
  if (!watch_) return status();
  Status aborted;
  try {
    aborted = failed(Code::aborted, "rank " + std::to_string(rank_) + " aborted the communicator");
  } catch (const std::exception&) {
    aborted = status_of_exception();  // what matters is that all end
  }
  [[maybe_unused]] const Status verdict = watch_->report(aborted);
  return {};
}

Result<std::string> Communicator::explain_call(Collective collective, std::uint64_t count,
                                               DataType type) const {
  if (!watch_) return status();
  const CollectiveSpec spec{
      collective, size_,
      collective == Collective::send || collective == Collective::recv ? (rank_ + 1) % size_ : 0};
  const std::uint32_t size_class =
      coll::size_class(count * size_of(type) * whole_blocks(collective, size_));
  COLL_ASSIGN(const Plan plan, make_plan(membership_.world, spec, size_class));
  std::string text = explain(membership_.world, plan, size_class);
  text += "transports of rank " + std::to_string(rank_) + ":";
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    text +=
        " " + std::to_string(peer) + ":" + membership_.pair_names[static_cast<std::size_t>(peer)];
  }
  text += size_ == 1 ? " none (one rank)\n" : "\n";
  return text;
}

}  // namespace coll
