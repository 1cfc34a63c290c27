// SPDX-License-Identifier: Apache-2.0
// Status and Result, how a failure travels.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/types.hpp"

namespace coll {

enum class Code : std::uint8_t {
  ok = COLL_SUCCESS,
  in_progress = COLL_IN_PROGRESS,
  invalid_argument = COLL_INVALID_ARGUMENT,
  invalid_usage = COLL_INVALID_USAGE,
  mismatch = COLL_MISMATCH,
  peer_lost = COLL_PEER_LOST,
  deadline = COLL_DEADLINE,
  aborted = COLL_ABORTED,
  system = COLL_SYSTEM,
  out_of_resources = COLL_OUT_OF_RESOURCES,
  unreachable = COLL_UNREACHABLE,
  unsupported = COLL_UNSUPPORTED,
  internal = COLL_INTERNAL,
};

std::string_view name_of(Code code);

/// A call of the user, as failures name it.
struct CallLabel {
  std::string text;            ///< "all_reduce #41 f32x4096 sum"
  std::uint64_t sequence = 0;  ///< 41; 0: no call
  Collective collective = Collective::barrier;
};

/// Everything known about one failure. Texts are for a person; `code` and `rank` for a program.
struct Failure {
  Code code = Code::internal;
  std::string what;          ///< what failed, with the names and numbers in it
  std::string hint;          ///< what to do about it; may be empty
  CallLabel call;            ///< in which it happened; empty outside of one
  std::string communicator;  ///< the name that the user gave it; empty without
  Rank rank = kNoRank;       ///< the rank at fault, where one is
  int error = 0;             ///< errno, 0 where the operating system had no part in it
  std::string where;         ///< "file.cpp:123"

  /// One line: "peer lost: rank 3 (pid 812) closed its connection [all_reduce #41 …]; hint …".
  [[nodiscard]] std::string text() const;
};

/// Success, or a Failure. One pointer, null when ok: cheap to return, nothing to destroy on the
/// call path.
class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit Status(Failure failure)
      : failure_(std::make_shared<const Failure>(std::move(failure))) {}

  [[nodiscard]] bool ok() const { return failure_ == nullptr; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return failure_ ? failure_->code : Code::ok; }
  [[nodiscard]] Rank rank() const { return failure_ ? failure_->rank : kNoRank; }
  [[nodiscard]] const Failure* failure() const { return failure_.get(); }
  [[nodiscard]] std::string text() const { return failure_ ? failure_->text() : "ok"; }

  /// The same failure, said of the call it happened in, or put down to a rank.
  [[nodiscard]] Status in_call(CallLabel call) const;
  [[nodiscard]] Status at_rank(Rank rank) const;
  /// The same failure of the communicator with that name; "": it has none.
  [[nodiscard]] Status of_communicator(std::string_view name) const;
  /// The same failure behind a few words of context: "connecting to rank 3: …".
  [[nodiscard]] Status with_context(std::string_view context) const;

  /// Code::out_of_resources. Allocates nothing.
  static Status out_of_memory() noexcept;

 private:
  std::shared_ptr<const Failure> failure_;
};

/// What the exception that is being handled means; to be called in a catch block.
Status status_of_exception() noexcept;

/// What the body, whose result is a Status or Result, returns; or what it throws, as a failure.
/// (Inlined by force: out of line, a small call takes 40 instructions more.)
template <class Body>
[[gnu::always_inline]] inline auto caught(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    return status_of_exception();
  }
}

/// Makes a failed Status and notes the place: `return failed(Code::system, "open …", "hint",
/// errno);`.
Status failed(Code code, std::string what, std::string hint = {}, int error = 0,
              const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// A failed system call: picks out_of_resources for EMFILE, ENFILE, ENOMEM, ENOSPC…, else system.
Status system_failure(std::string what, int error, std::string hint = {},
                      const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// A value, or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-*)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-*)
    COLL_CHECK(!status_.ok(), "a Result without a value needs a failure");
  }
  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Status& status() const { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace coll

/// Returns the failure of `expression`, a Status, from the enclosing function.
#define COLL_TRY(expression)                                                  \
  do {                                                                        \
    if (::coll::Status coll_try_status = (expression); !coll_try_status.ok()) \
      return coll_try_status;                                                 \
  } while (false)

#define COLL_JOIN_(a, b) a##b
#define COLL_JOIN(a, b) COLL_JOIN_(a, b)
/// `COLL_ASSIGN(auto fd, open_it());` declares fd, or returns the failure from the enclosing
/// function.
#define COLL_ASSIGN(declaration, expression) \
  COLL_ASSIGN_(declaration, expression, COLL_JOIN(coll_result_, __LINE__))
#define COLL_ASSIGN_(declaration, expression, name) \
  auto name = (expression);                         \
  if (!name.ok()) return name.status();             \
  declaration = *std::move(name)
