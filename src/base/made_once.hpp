// SPDX-License-Identifier: Apache-2.0
// Values that a process makes once and keeps, also where memory runs out.
#pragma once
#include <atomic>
#include <memory>
#include <type_traits>

namespace coll {

/// What `make()` returns, made by the first caller and kept to the very end of the process. Each
/// lambda has a value of its own.
///
/// Two threads may make it at the same time; then one value is dropped. So there is no lock. A
/// function-local static has one, and a fork during its initialisation leaves it locked in the
/// child.
template <class Make>
auto& made_once(Make make) {
  static_assert(std::is_class_v<Make>, "a lambda: functions of one type would share one value");
  using Value = std::remove_cvref_t<decltype(make())>;
  static constinit std::atomic<Value*> kept{nullptr};
  Value* there = kept.load(std::memory_order_acquire);
  if (there != nullptr) [[likely]]
    return *there;
  std::unique_ptr<Value> mine(new Value(make()));
  if (kept.compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
    return *mine.release();
  }
  return *there;
}

}  // namespace coll
