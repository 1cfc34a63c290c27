// SPDX-License-Identifier: Apache-2.0
// A process group's communicator, and what its operations share: names, hooks, operations in
// flight.
#pragma once
#include <atomic>
#include <chrono>
#include <collectives/collectives.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <unordered_map>
#include <vector>

namespace collectives_torch {

class GroupWork;
using Milliseconds = std::chrono::milliseconds;

inline double seconds(Milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Who a group is, for errors.
struct Identity {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<std::int64_t> global_ranks;  // empty: not known
};

/// Functions of the user by number. They are called without the lock, as their owners may take
/// locks of their own, hold them, and unregister.
template <class Function>
class HookTable {
 public:
  void add(std::int64_t id, Function function) {
    const std::lock_guard lock(mutex_);
    functions_[id] = std::move(function);
    any_.store(true, std::memory_order_release);
  }
  void remove(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    functions_.erase(id);
    any_.store(!functions_.empty(), std::memory_order_release);
  }
  template <class... Arguments>
  void call(const Arguments&... arguments) {
    if (!any_.load(std::memory_order_acquire)) return;
    std::vector<Function> functions;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, function] : functions_) functions.push_back(function);
    }
    for (const Function& function : functions) {
      try {
        function(arguments...);
      } catch (const std::exception& error) {
        TORCH_WARN("coll: a hook failed: ", error.what());
      }
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Function> functions_;
  std::atomic<bool> any_ = false;
};

class Group {
 public:
  Group(Identity who, collectives::Communicator communicator);

  /// Meets the other ranks by PyTorch's store.
  static std::shared_ptr<Group> join(const c10::intrusive_ptr<c10d::Store>& store, Identity who,
                                     Milliseconds timeout);
  /// The ranks named, of which this is one; only they call.
  std::shared_ptr<Group> subset(const std::vector<int>& ranks, Identity who, Milliseconds timeout);

  [[nodiscard]] const Identity& who() const { return who_; }

  /// Calls `use` with the communicator, which lives until `use` returns. Throws after shutdown.
  template <class Use>
  auto with_communicator(Use use) {
    const std::shared_lock lock(communicator_mutex_);
    if (!communicator_) throw_shut_down();
    return use(*communicator_);
  }
  [[nodiscard]] bool is_open() const;

  /// Ends the operations of all ranks, in any thread. No error if there is nothing to end.
  void abort();
  /// Leaves in order: waits for this rank's operations.
  void shutdown();

  /// The exception that an operation failed with, as PyTorch's users catch it.
  [[nodiscard]] std::exception_ptr exception(const std::string& operation, coll_status_t code,
                                             int rank_at_fault, const std::string& text,
                                             Milliseconds timeout) const;
  /// Throws the thread's last failure of the library, as of `operation`.
  [[noreturn]] void throw_last(const std::string& operation, coll_status_t code,
                               Milliseconds timeout) const;

  // Operations in flight own themselves here until they are complete.

  void add_in_flight(const c10::intrusive_ptr<GroupWork>& work);
  /// Returns the group's reference.
  c10::intrusive_ptr<GroupWork> remove_in_flight(std::uint64_t key);
  /// Collectives and messages, or collectives only.
  std::vector<c10::intrusive_ptr<GroupWork>> in_flight(bool messages_too) const;
  /// Waits for all operations in flight, however they end.
  void wait_for_works() const;

  HookTable<std::function<void()>> abort_hooks;
  /// Gets the operation's key, and how long it took in ms.
  HookTable<std::function<void(std::uint64_t, float)>> completion_hooks;
  /// The older kind of completion hook. Set before operations are issued.
  std::function<void(std::shared_ptr<c10d::WorkInfo>)> work_info_hook;

 private:
  [[noreturn]] void throw_shut_down() const;

  const Identity who_;
  mutable std::shared_mutex communicator_mutex_;
  std::optional<collectives::Communicator> communicator_;
  mutable std::mutex in_flight_mutex_;
  std::unordered_map<std::uint64_t, c10::intrusive_ptr<GroupWork>> in_flight_;
};

}  // namespace collectives_torch
