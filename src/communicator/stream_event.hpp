// SPDX-License-Identifier: Apache-2.0
// The event: one stream waits for what another one held.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace coll {

class HostStream;

/// A place in a stream's queue. It is reached when the stream's operations up to there have ended,
/// whether they failed or not. It outlives its stream.
class StreamPoint : public std::enable_shared_from_this<StreamPoint> {
 public:
  StreamPoint(HostStream& stream, std::uint64_t number) : number_(number), stream_(&stream) {}
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] bool reached() const { return reached_.load(std::memory_order_acquire); }
  /// Returns when it is reached, and drives meanwhile.
  void wait() noexcept;

  // For streams, under the mutex of their ends: first the stream's, then the point's.
  /// The operation that waits for the point. False: it is reached already.
  bool add_waiter(HostStream& stream, std::uint64_t number);
  void reach() noexcept;

 private:
  friend class PointList;
  struct Waiter {
    HostStream* stream;
    std::uint64_t number;
  };

  const std::uint64_t number_;
  std::mutex mutex_;  // guards the next two; and `reached_` changes under it
  HostStream* stream_;
  std::vector<Waiter> waiters_;  ///< once it is reached, only PointList::release_waiters reads it
  std::atomic<bool> reached_{false};
  std::shared_ptr<StreamPoint> next_;  ///< in a list
};

/// Points in the order of their stream.
class PointList {
 public:
  PointList() = default;
  PointList(PointList&& other) noexcept
      : first_(std::move(other.first_)), last_(std::exchange(other.last_, nullptr)) {}
  PointList& operator=(PointList&&) = delete;
  ~PointList();

  [[nodiscard]] StreamPoint* last() const { return last_; }
  void push(std::shared_ptr<StreamPoint> point) noexcept;
  void append(PointList& other) noexcept;
  /// Takes out those up to `number`, and says that they are reached.
  PointList take_reached(std::uint64_t number) noexcept;
  /// The streams that wait for these points, which are reached, may go on. The caller holds no
  /// stream's mutex.
  void release_waiters() noexcept;

 private:
  std::shared_ptr<StreamPoint> pop() noexcept;

  std::shared_ptr<StreamPoint> first_;
  StreamPoint* last_ = nullptr;
};

/// Where a stream was when the event was recorded last. Any thread may use it.
class StreamEvent {
 public:
  void record(HostStream& stream);
  /// What is enqueued on the stream from now on begins when the point is reached.
  void hold_back(HostStream& stream) const;
  /// Also where nothing was recorded.
  [[nodiscard]] bool reached() const;
  void wait() const noexcept;

 private:
  [[nodiscard]] std::shared_ptr<StreamPoint> point() const;

  mutable std::mutex mutex_;            // guards `point_`
  std::shared_ptr<StreamPoint> point_;  ///< null: there is nothing to wait for
};

}  // namespace coll
