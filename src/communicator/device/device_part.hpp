// SPDX-License-Identifier: Apache-2.0
// Calls on their way to a stream of CUDA.
#pragma once
#include <mutex>
#include <span>
#include <utility>

#include "communicator/device/device_stream.hpp"

namespace coll {

/// The calls that a group, or a single call, has on one stream of CUDA: one operation. It is put
/// there in steps, and the stream is locked until the calls are issued. So the stream and the
/// engines see operations in the same order. Until all calls were taken by `next_call`, whoever
/// drops this has issued none: then the stream goes on without them.
class DevicePart {
 public:
  explicit DevicePart(DeviceStream& stream) : stream_(&stream), lock_(stream.enqueue_mutex_) {}
  DevicePart(DevicePart&& other) noexcept
      : stream_(other.stream_),
        lock_(std::move(other.lock_)),
        operation_(std::exchange(other.operation_, nullptr)),
        there_(other.there_),
        calls_(other.calls_),
        issued_(other.issued_) {}
  DevicePart& operator=(DevicePart&&) = delete;
  ~DevicePart() {
    if (operation_ == nullptr) return;
    there_ ? stream_->give_up(*operation_) : stream_->take_back(*operation_);
  }
  [[nodiscard]] DeviceStream* stream() const { return stream_; }

  /// First all calls are added.
  Status add(Communicator& communicator, const Request& request, double deadline_s) {
    if (operation_ == nullptr) {
      COLL_ASSIGN(operation_, stream_->take());
    }
    operation_->add(communicator, request, deadline_s);
    ++calls_;
    return {};
  }
  /// Then it finds out whether the stream is being captured, and takes the memory that the calls
  /// need. That may wait until all streams have ended their work: so all parts of a group are
  /// prepared before the first is put.
  Status prepare() { return stream_->prepare(*operation_); }
  /// Then all parts `get_ready`.
  bool is_ready() noexcept { return operation_->is_ready(); }
  /// Then it is put on the stream, unless it is there.
  Status put() {
    if (there_) return {};
    DeviceOperation& operation = *std::exchange(operation_, nullptr);  // taken back if it fails
    COLL_TRY(stream_->put(operation));
    operation_ = &operation;
    there_ = true;
    return {};
  }
  /// The next call, to issue; null: the stream issues it, and the operation may have ended.
  OpenCall* next_call() noexcept {
    OpenCall* const call = operation_->issued_by_stream() ? nullptr : &operation_->call(issued_);
    if (++issued_ == calls_) operation_ = nullptr;
    return call;
  }
  /// Before it is put: will the stream, and not this thread, issue calls of the communicator?
  [[nodiscard]] bool issues(const Communicator& communicator) const {
    if (!operation_->issued_by_stream()) return false;
    for (std::size_t i = 0; i < calls_; ++i)
      if (&operation_->communicator(i) == &communicator) return true;
    return false;
  }

 private:
  DeviceStream* stream_;
  std::unique_lock<std::mutex> lock_;
  DeviceOperation* operation_ = nullptr;
  bool there_ = false;     ///< on the stream
  std::size_t calls_ = 0;  ///< that were added; an operation that has ended has forgotten them
  std::size_t issued_ = 0;
};

/// Waits until GPUs can move the parts' calls, for the peers too, which have to issue the first
/// call of a class as well. Not for long: a thread may have several ranks, and issue their calls
/// one after another. What is missing then is made when the stream has come to the call, and this
/// may take until other streams have ended their work.
void get_ready(std::span<DevicePart> parts) noexcept;

}  // namespace coll
