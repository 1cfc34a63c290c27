// SPDX-License-Identifier: Apache-2.0
// A ring of slots that hold messages whole.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

namespace coll {

/// A bounded FIFO of messages in this process's memory. A slot is a header and, right behind it,
/// the payload: one piece for the kernel. The memory becomes real only where it is touched.
class TcpSlots {
 public:
  /// So long that the payload, in the kernel's pages, does not lie 1 to 31 bytes behind its place
  /// in the caller's page, be that the begin of the page or malloc's 16 bytes behind it. There the
  /// kernel's `rep movsb` takes four to six times as long on some processors. (docs/performance.md)
  static constexpr std::size_t kHeaderBytes = 64;

  TcpSlots() = default;
  TcpSlots(const TcpSlots&) = delete;
  TcpSlots& operator=(const TcpSlots&) = delete;
  ~TcpSlots();

  Status allocate(std::uint32_t credits, std::size_t slot_bytes);

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == credits_; }
  /// The payload of the oldest message, and the place of the next one; the header lies before it.
  [[nodiscard]] std::byte* front() const { return slot(first_); }
  [[nodiscard]] std::byte* back() const { return slot(first_ + count_); }
  /// Messages ever pushed, and ever popped.
  [[nodiscard]] std::uint64_t pushed() const { return popped_ + count_; }
  [[nodiscard]] std::uint64_t popped() const { return popped_; }
  void push() { ++count_; }
  void pop() {
    first_ = first_ + 1 == credits_ ? 0 : first_ + 1;
    --count_;
    ++popped_;
  }

 private:
  [[nodiscard]] std::byte* slot(std::uint32_t index) const {
    return memory_ + (index < credits_ ? index : index - credits_) * stride_ + kHeaderBytes;
  }

  std::byte* memory_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t credits_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t popped_ = 0;
};

}  // namespace coll
