// SPDX-License-Identifier: Apache-2.0
// A call from its issue to its end, and whom it belongs to.
#pragma once
#include <atomic>
#include <memory>

#include "communicator/calls/bound_calls.hpp"
#include "communicator/calls/local_steps.hpp"
#include "sys/clock.hpp"
#include "watch/call_board.hpp"

namespace coll {

struct OpenCall;
class Work;

/// Whom a call tells of its end: a stream, a group, a handle. Its functions run on the thread that
/// drives the engine.
class CallOwner {
 public:
  CallOwner() = default;
  CallOwner(const CallOwner&) = delete;
  CallOwner& operator=(const CallOwner&) = delete;

  /// May the call move, or end? Asked again and again until the answer is yes, which stays.
  [[nodiscard]] virtual bool may_start(const OpenCall& call) const noexcept = 0;
  /// Is the work told of the call's end?
  [[nodiscard]] virtual bool tells(const OpenCall& call, const Work& work) const noexcept = 0;
  /// The call has ended with `call.status`. It may be used again once this returns.
  virtual void on_end(OpenCall& call) noexcept = 0;

 protected:
  ~CallOwner() = default;
};

/// One call in flight. The issuer fills the first part and keeps the object where it is until the
/// call has ended; the rest belongs to the engine.
struct OpenCall {
  static constexpr double kOwnDeadline = -1;  ///< the communicator's

  Request request;
  std::shared_ptr<const UnequalBlocks>
      blocks;                        ///< keeps those of the request, if the call has an owner
  Extras extras;                     ///< the request's, if the call has an owner
  CallOwner* owner = nullptr;        ///< null: only `ended` tells of the end
  bool waited = true;                ///< the issuer waits for it from its issue on
  double deadline_s = kOwnDeadline;  ///< how long it may stand still; 0: for ever
  /// A stream of CUDA has put its buffers in order. Those of a call that the processor moves lie on
  /// the host, so that nobody need ask the CUDA driver, which may be waiting for this call.
  bool on_host = false;

  enum class State : std::uint8_t {
    issued,   ///< not begun: calls begin in the order of their issue
    opening,  ///< waits for connections that nobody needed before
    held,     ///< has its place behind earlier calls, but may not start yet
    unmet,    ///< tagged, and has not met its other end
    moving,
  };
  State state = State::issued;
  std::unique_ptr<LocalSteps> local;  ///< if it has any, once it has begun
  Call call;                          ///< with its number, once it has begun
  BoundCall* bound = nullptr;         ///< once it is held or moving
  std::uint64_t place = 0;            ///< on the call board
  /// Since when nothing of it has moved, from the first look on.
  Clock::time_point still_since;
  bool looked_at = false;
  double patience_s = 0;  ///< then the others are asked
  // Of a tagged call.
  bool probe = false;           ///< a recv that takes no message, but says what it would take
  bool met = false;             ///< its other end
  bool cancelled = false;       ///< ends as soon as it may start
  std::uint64_t announced = 0;  ///< a send's number, at its receiver
  OpenCall* next = nullptr;
  Status status;                   ///< how it ended
  std::atomic<bool> ended{false};  ///< publishes `status`

  [[nodiscard]] bool may_start() const { return owner == nullptr || owner->may_start(*this); }
  /// This rank's own work, when the call starts and when it has ended well.
  [[nodiscard]] Status before() const noexcept { return local ? local->before() : Status(); }
  [[nodiscard]] Status after() const noexcept { return local ? local->after() : Status(); }
  [[nodiscard]] bool is_unmet() const { return request.call.tagged() && !met; }

  /// Makes it a new call; the one before must have ended. `waits`: the issuer, for its end.
  void renew(const Request& what, CallOwner* whose, double deadline, bool waits) {
    request = what;
    blocks = what.kept_blocks();
    if (what.extras != nullptr) {
      extras = *what.extras;
      request.extras = &extras;
    }
    owner = whose;
    waited = waits;
    deadline_s = deadline;
    on_host = false;
    state = State::issued;
    call = {};
    bound = nullptr;
    place = 0;
    looked_at = false;
    probe = met = cancelled = false;
    announced = 0;
    status = {};
  }
};

/// Calls in a row, linked through themselves.
class CallList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] OpenCall* front() const { return first_; }
  void push(OpenCall& call) {
    call.next = nullptr;
    *last_ = &call;
    last_ = &call.next;
  }
  void append(CallList& other) {
    if (other.empty()) return;
    *last_ = other.first_;
    last_ = other.last_;
    other.clear();
  }
  OpenCall* pop() {
    OpenCall* const call = first_;
    if (call != nullptr) erase(&first_);
    return call;
  }
  /// The link to the first call, for loops that erase as they go: `(*at)->next` is the next link.
  [[nodiscard]] OpenCall** begin() { return &first_; }
  void erase(OpenCall** at) {
    OpenCall& call = **at;
    if (last_ == &call.next) last_ = at;
    *at = call.next;
  }

  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;

 private:
  void clear() {
    first_ = nullptr;
    last_ = &first_;
  }
  OpenCall* first_ = nullptr;
  OpenCall** last_ = &first_;
};

}  // namespace coll
