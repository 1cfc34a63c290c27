// SPDX-License-Identifier: Apache-2.0
// A queue that keeps its memory.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace coll {

/// First in, first out. It grows when it is full and never shrinks, so it allocates nothing once it
/// has been as long as it gets.
template <class T>
class KeptQueue {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const T& front() const { return room_[first_]; }
  /// Behind the front.
  [[nodiscard]] const T& at(std::size_t index) const {
    return room_[(first_ + index) % room_.size()];
  }

  void push(const T& value) {
    if (size_ == room_.size()) grow();
    room_[(first_ + size_) % room_.size()] = value;
    ++size_;
  }
  void pop() {
    first_ = (first_ + 1) % room_.size();
    --size_;
  }
  void clear() { size_ = 0; }

 private:
  void grow() {
    constexpr std::size_t kLeast = 16;
    std::vector<T> more(size_ == 0 ? kLeast : 2 * size_);
    for (std::size_t i = 0; i < size_; ++i) more[i] = room_[(first_ + i) % size_];
    room_ = std::move(more);
    first_ = 0;
  }

  std::vector<T> room_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace coll
