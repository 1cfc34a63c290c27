// SPDX-License-Identifier: Apache-2.0
// Operations of a group of ranks that run while units compute, and how long the computing thread
// had to wait for them: exposed communication.
#pragma once
#include <atomic>
#include <chrono>
#include <collectives/collectives.hpp>
#include <functional>
#include <memory>

#include "../math/number_format.hpp"
#include "../memory/failure.hpp"

namespace training {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}
inline double seconds_since(Clock::time_point begin) {
  return seconds_between(begin, Clock::now());
}

constexpr coll_dtype_t dtype_of(Format format) {
  return format == Format::f32 ? COLL_FLOAT32
                               : (format == Format::bf16 ? COLL_BFLOAT16 : COLL_FLOAT16);
}

/// An operation that was issued. Its buffers belong to it until it was waited for; the destructor
/// waits too.
class Pending {
 public:
  Pending() = default;
  Pending(Pending&& other) noexcept = default;
  Pending& operator=(Pending&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~Pending();
  explicit operator bool() const { return operation_ != nullptr; }

 private:
  friend class Traffic;
  struct Operation {
    collectives::Work work{nullptr};
    const char* name = "";
    std::size_t bytes = 0;
    Clock::time_point begin;
    std::atomic<Clock::rep> end{0};  ///< since the clock's epoch
  };
  std::unique_ptr<Operation> operation_;
};

class Traffic {
 public:
  explicit Traffic(collectives::Communicator& comm) : comm_(comm) {}
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(comm_.rank()); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  [[nodiscard]] collectives::Communicator& communicator() const { return comm_; }

  /// Sums, in place.
  [[nodiscard]] Pending all_reduce(void* data, std::size_t count, Format format);
  /// `send` has ranks() * count elements.
  [[nodiscard]] Pending reduce_scatter(const void* send, void* recv, std::size_t count,
                                       Format format);
  /// `recv` has ranks() * count elements.
  [[nodiscard]] Pending all_gather(const void* send, void* recv, std::size_t count, Format format);
  /// Any other operation; `name` and `bytes` are for the trace.
  [[nodiscard]] Pending start(const coll_call_t& call, const char* name, std::size_t bytes);

  /// Waits for it; `pending` is empty then. An empty one is no error.
  void wait(Pending& pending);

  /// Of operations that were waited for, since the last reset.
  struct Times {
    double busy = 0;     ///< seconds from issue to end, summed
    double exposed = 0;  ///< seconds spent in wait()
  };
  [[nodiscard]] Times times() const { return times_; }
  void reset_times() { times_ = {}; }

  /// Called for each operation that was waited for.
  using Observer = std::function<void(const char* name, std::size_t bytes, Clock::time_point begin,
                                      Clock::time_point end)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  struct Moved {
    const void* send;
    void* recv;
    std::size_t count;
    Format format;
  };
  /// `whole`: elements of the longer side.
  Pending start(coll_operation_t operation, const Moved& moved, const char* name,
                std::size_t whole);

  collectives::Communicator& comm_;
  Times times_;
  Observer observer_;
};

}  // namespace training
