// SPDX-License-Identifier: Apache-2.0
// Which of many descriptors have news.
#pragma once
#include <algorithm>
#include <vector>

#include "sys/fd.hpp"

namespace coll {

/// Descriptors that poll(2) would each be asked for, asked for together. Edge-triggered: use a
/// descriptor that `has` news until it would block. Where the system has no epoll set left, every
/// descriptor seems to have news.
class ReadySet {
 public:
  /// Until it is closed.
  void add(int fd);
  /// Learns of the news since the last call.
  void collect();
  [[nodiscard]] bool has(int fd) const {
    return blind_ || std::binary_search(ready_.begin(), ready_.end(), fd);
  }
  /// Forgets all descriptors.
  void clear();

 private:
  Fd epoll_;
  std::vector<int> ready_;  ///< ascending
  bool blind_ = false;      ///< a descriptor could not be added
};

}  // namespace coll
