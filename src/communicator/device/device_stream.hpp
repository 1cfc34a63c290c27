// SPDX-License-Identifier: Apache-2.0
// A stream of CUDA that operations are put on.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "communicator/device/device_operation.hpp"
#include "communicator/engine/progress_thread.hpp"

namespace coll {

/// Puts operations on a stream that the program has made with CUDA. They run when the stream
/// reaches them, and what the program puts there later runs behind them. Nothing here waits for the
/// stream, except where it says so. The process's progress thread moves the calls, or whoever waits
/// for them.
class DeviceStream {
 public:
  /// `stream` is a CUstream; null is CUDA's default stream, of the calling thread's context.
  /// Who wraps a stream that is wrapped already gets the same.
  static Result<std::shared_ptr<DeviceStream>> wrap(void* stream);
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  /// Waits for the operations. Captured ones must not run any more.
  ~DeviceStream();

  /// Puts one checked request on the stream.
  Status enqueue(Communicator& communicator, const Request& request, double deadline_s);
  /// Waits until the operations that were not captured are over, with their outputs in place; the
  /// first failure since the last wait, also of captured ones.
  Status synchronize();
  /// Waits for the calls alone.
  void finish() noexcept { wait_for_calls(); }
  /// As `synchronize`, without waiting: Code::in_progress while something is outstanding.
  Status query();

  // For operations.
  [[nodiscard]] std::mutex& end_mutex() { return end_mutex_; }
  [[nodiscard]] const std::shared_ptr<ProgressThread>& helper() const { return helper_; }
  // Under the mutex of ends.
  void note_failure(const Status& failure) noexcept {
    if (failure_.ok()) failure_ = failure;
  }
  void end_operation(DeviceOperation& operation) noexcept;

 private:
  friend class DevicePart;
  // For it, which holds the lock of who enqueues.
  /// An operation without calls. `take_back` it, unless it was put on the stream.
  Result<DeviceOperation*> take();
  void take_back(DeviceOperation& operation) noexcept;
  Status prepare(DeviceOperation& operation);
  /// Where it fails, it has taken the operation back.
  Status put(DeviceOperation& operation);
  /// The operation is on the stream, and its calls will not be issued.
  void give_up(DeviceOperation& operation) noexcept;

  DeviceStream(const CudaDriver& driver, CudaStream stream, CudaContext context)
      : driver_(driver), stream_(stream), context_(context), words_(driver, context) {}
  static std::shared_ptr<DeviceStream> find_or_add(CudaStream stream, CudaContext context,
                                                   std::shared_ptr<DeviceStream> made);
  [[nodiscard]] Result<bool> is_capturing() const;
  Result<std::byte*> memory_for(DeviceOperation& operation, bool captured);
  Status add_operation();
  void withdraw(DeviceOperation& operation) noexcept;
  // Under the mutex of ends.
  void push_open(DeviceOperation& operation) noexcept;
  void remove_open(DeviceOperation& operation) noexcept;
  /// What the driver says of the event behind the last operation; without one, that it is over.
  int ask_behind(int (*ask)(CudaEvent event)) const;
  Status take_failure(int error);
  void wait_for_calls() noexcept;
  void look_at_device() noexcept;
  [[nodiscard]] bool calls_ended() noexcept;

  const CudaDriver& driver_;
  const CudaStream stream_;
  const CudaContext context_;
  CudaEvent behind_ = nullptr;  ///< recorded behind the last operation
  std::shared_ptr<ProgressThread> helper_;
  std::mutex enqueue_mutex_;  ///< guards what follows
  PinnedWords words_;
  std::deque<DeviceOperation> operations_;
  /// All operations use it, but captured ones: the stream has each wait for the one before.
  PinnedBlock memory_;
  /// The stream may still copy them. They stay: to free them may wait for the stream.
  std::vector<PinnedBlock> outgrown_;
  bool gave_up_ = false;  ///< on an operation that the stream may still come to
  std::mutex end_mutex_;  ///< guards the rest
  Status failure_;
  std::vector<DeviceOperation*> free_;
  DeviceOperation* first_open_ = nullptr;  ///< operations whose calls have not ended, in order
  DeviceOperation* last_open_ = nullptr;
  std::atomic<std::uint64_t> ended_{0};  ///< operations
  bool device_failed_ = false;
};

}  // namespace coll
