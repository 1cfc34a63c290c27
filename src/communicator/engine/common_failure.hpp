// SPDX-License-Identifier: Apache-2.0
// A communicator's failure, the same on all ranks.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "watch/watch.hpp"

namespace coll {

/// What a call ends with when its communicator fails: the verdict, said of the call.
Status said_of(const Status& verdict, const Call& call) noexcept;

/// The first failure of a communicator. It stays, and every later call returns it.
class CommonFailure {
 public:
  /// `name`: the communicator's, "" without.
  explicit CommonFailure(std::string_view name) : name_(name) {}
  /// The watch that tells the other ranks; before the first call.
  void report_to(Watch& watch) { watch_ = &watch; }
  /// Nothing may be called any more, and `why` is the reason.
  void set(const Status& why) noexcept;

  /// Has this rank failed, or heard that another one has?
  [[nodiscard]] bool happened() const {
    return failed_.load(std::memory_order_relaxed) || (watch_ != nullptr && watch_->has_failed());
  }
  /// From any thread; ok while nothing has failed.
  [[nodiscard]] Status status() const;
  /// Its text, "" while there is none; lives as long as this.
  [[nodiscard]] const char* text();

  /// Makes a failure of `call` everybody's and sticky. What sticks is what all ranks agreed on,
  /// word for word. `peer`: whose message did not fit, where that is the failure.
  Status settle(const Status& failure, const Call& call, Rank peer) noexcept;
  /// The same of a failure that says all there is to say.
  Status settle_as_said(const Status& failure) noexcept;
  /// The same where `call` has waited `waited_s` seconds, which is too long.
  Status settle_deadline(const Call& call, double waited_s, std::string awaited) noexcept;

 private:
  template <class Find>
  Status keep(Find find) noexcept;

  [[nodiscard]] Status named(const Status& failure) const noexcept;

  const std::string name_;
  Watch* watch_ = nullptr;
  mutable std::mutex mutex_;  // guards the next two
  Status failure_;
  std::string text_;  ///< handed out, so it never changes
  std::atomic<bool> failed_{false};
};

}  // namespace coll
