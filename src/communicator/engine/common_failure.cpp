// SPDX-License-Identifier: Apache-2.0
// A communicator's failure, the same on all ranks.
#include "communicator/engine/common_failure.hpp"

#include <exception>
#include <utility>

namespace coll {

Status said_of(const Status& verdict, const Call& call) noexcept {
  try {
    return call.sequence == 0 ? verdict : verdict.in_call(call.label());
  } catch (const std::exception&) {
    return verdict;
  }
}

/// With the name, if there is memory for it.
Status CommonFailure::named(const Status& failure) const noexcept {
  try {
    return failure.of_communicator(name_);
  } catch (const std::exception&) {
    return failure;
  }
}

void CommonFailure::set(const Status& why) noexcept {
  Status failure = named(why);
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(failure);
  failed_.store(true, std::memory_order_release);
}

Status CommonFailure::status() const {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
  }
  return watch_ != nullptr && watch_->has_failed() ? named(watch_->failure()) : Status{};
}

const char* CommonFailure::text() {
  const Status now = status();
  const std::lock_guard lock(mutex_);
  if (text_.empty() && !now.ok()) text_ = now.text();
  return text_.c_str();
}

/// Memory that runs out on the way is a failure like any other.
template <class Find>
Status CommonFailure::keep(Find find) noexcept {
  Status verdict;
  try {
    verdict = watch_->has_failed() ? watch_->failure() : find();
  } catch (const std::exception&) {
    verdict = watch_->report(status_of_exception());
  }
  set(verdict);
  const std::lock_guard lock(mutex_);
  return failure_;
}

Status CommonFailure::settle(const Status& failure, const Call& call, Rank peer) noexcept {
  return keep([&] {
    return failure.code() == Code::mismatch ? watch_->report_mismatch(call, peer, failure)
                                            : watch_->report(failure.in_call(call.label()));
  });
}

Status CommonFailure::settle_as_said(const Status& failure) noexcept {
  return keep([&] { return watch_->report(failure); });
}

Status CommonFailure::settle_deadline(const Call& call, double waited_s,
                                      std::string awaited) noexcept {
  return keep([&] { return watch_->report_deadline(call, waited_s, std::move(awaited)); });
}

}  // namespace coll
