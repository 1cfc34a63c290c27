// SPDX-License-Identifier: Apache-2.0
// The host stream: operations that run later, in order.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "communicator/call_group.hpp"
#include "communicator/communicator.hpp"
#include "communicator/engine/progress_thread.hpp"
#include "communicator/stream_event.hpp"
#include "communicator/work.hpp"

namespace coll {

/// Operations given to a stream run one after another, on one communicator or several. Among other
/// calls of their communicators they keep the order of their issue. The process's progress thread
/// moves them, or whoever waits for them.
class HostStream final : private CallOwner {
 public:
  static Result<std::unique_ptr<HostStream>> create();
  /// Waits for what was enqueued.
  ~HostStream();

  /// Enqueues a checked request; waits only if kCapacity operations are outstanding. `deadline_s`
  /// as in OpenCall; `work`, if any, is told of its end.
  void enqueue(Communicator& communicator, const Request& request,
               double deadline_s = OpenCall::kOwnDeadline, std::shared_ptr<Work> work = nullptr);
  /// Waits for everything; the first failure since the last wait.
  Status synchronize();
  /// The same without waiting: Code::in_progress while something is outstanding.
  Status query();

  // For groups. One thread at a time enqueues: who holds this lock.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(enqueue_mutex_); }
  [[nodiscard]] bool has_room() const;  ///< for one more operation; under the lock
  void wait_for_room() noexcept;        ///< without the lock
  /// Under the lock: makes room for the next operation, and says its number.
  std::uint64_t prepare_place();
  /// Under the lock: the group is the operation of that number, which `prepare_place` has said.
  void append(CallGroup& group, std::uint64_t number) noexcept;
  [[nodiscard]] bool is_turn_of(std::uint64_t number) const noexcept {
    return number - 1 == ended_.load(std::memory_order_acquire);
  }
  /// Guards the ends of operations; `end_place` is called under it.
  [[nodiscard]] std::mutex& end_mutex() { return end_mutex_; }
  /// The points that this reaches; the caller releases their waiters once it has unlocked.
  [[nodiscard]] PointList end_place(std::uint64_t number, const Status& how) noexcept;

  // For events.
  /// The point behind what is enqueued now; null if all of that has ended.
  std::shared_ptr<StreamPoint> make_point();
  /// Enqueues an operation that ends when the point is reached.
  void enqueue_wait(std::shared_ptr<StreamPoint> point);
  /// The point that the operation of that number waits for is reached.
  [[nodiscard]] PointList open_place(std::uint64_t number) noexcept;
  /// Keeps the stream from being destroyed.
  class Guest {
   public:
    explicit Guest(HostStream& stream) : stream_(&stream) {
      stream_->guests_.fetch_add(1, std::memory_order_relaxed);
    }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() { stream_->guests_.fetch_sub(1, std::memory_order_release); }
    /// Returns when the operation of that number has ended.
    void wait_for(std::uint64_t number) const noexcept { stream_->wait_for(number); }

   private:
    HostStream* stream_;
  };

 private:
  static constexpr std::uint64_t kCapacity = 1024;
  static constexpr std::uint64_t kBlock = 64;  ///< calls whose memory is allocated together
  struct StreamCall : OpenCall {
    std::uint64_t number = 0;  ///< in the stream, from 1
    Engine* engine = nullptr;
    std::shared_ptr<Work> work;
    CallGroup* group = nullptr;            ///< then the rest says nothing
    std::shared_ptr<StreamPoint> awaited;  ///< then all else says nothing
    bool open = false;                     ///< that point is reached
  };
  using Block = std::array<StreamCall, kBlock>;

  HostStream() = default;
  [[nodiscard]] bool may_start(const OpenCall& call) const noexcept override;
  [[nodiscard]] bool tells(const OpenCall& call, const Work& work) const noexcept override;
  void on_end(OpenCall& call) noexcept override;
  StreamCall& place_of(std::uint64_t number) {
    return (*blocks_[number % kCapacity / kBlock])[number % kBlock];
  }
  [[nodiscard]] std::unique_lock<std::mutex> lock_with_room();
  void publish(std::uint64_t number) noexcept;
  void wait_for(std::uint64_t number) noexcept;
  Status take_failure();

  std::shared_ptr<ProgressThread> helper_;
  std::mutex enqueue_mutex_;  ///< one thread enqueues at a time
  std::atomic<std::uint64_t> enqueued_{0};
  std::array<std::unique_ptr<Block>, kCapacity / kBlock> blocks_;
  std::mutex end_mutex_;  ///< guards the next two; and `ended_` changes under it
  Status failure_;
  PointList points_;  ///< not reached yet
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint32_t> guests_{0};
};

}  // namespace coll
