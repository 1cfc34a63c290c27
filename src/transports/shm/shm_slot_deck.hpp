// SPDX-License-Identifier: Apache-2.0
// transports/shm/: ranks of one host, through shared memory. This file: which of its large slots a
// sender uses.
#pragma once
#include <cstdint>
#include <vector>

namespace coll {

/// What the cell of a message holds that has a large slot: which one.
struct ShmSlot {
  std::uint32_t number = 0;
};

/// The large slots as their sender sees them: those that are free, the last to come back on top,
/// and those under way, which come back in the order in which they went.
class ShmSlotDeck {
 public:
  ShmSlotDeck() = default;
  explicit ShmSlotDeck(std::uint32_t count) : under_way_(count) {
    while (count > 0) free_.push_back({--count});
  }

  [[nodiscard]] bool empty() const { return free_.empty(); }
  [[nodiscard]] ShmSlot top() const { return free_.back(); }
  /// Whether it is time to ask which came back, rather than to use one more. Each time costs a
  /// cache line: at every message, 16 KiB took 8 % longer.
  [[nodiscard]] bool wants_back() const { return sent_ - returned_ >= kUsual; }
  void send() {
    under_way_[(first_ + sent_ - returned_) % under_way_.size()] = top();
    free_.pop_back();
    ++sent_;
  }
  /// Until so many have ever come back; false if those never went.
  bool take_back(std::uint32_t returned) {
    if (returned - returned_ > sent_ - returned_) return false;
    for (; returned_ != returned; ++returned_) {
      free_.push_back(under_way_[first_]);
      first_ = (first_ + 1) % static_cast<std::uint32_t>(under_way_.size());
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kUsual = 2;

  std::vector<ShmSlot> free_, under_way_;
  std::uint32_t first_ = 0;  ///< of those under way, the place of the first one
  std::uint32_t sent_ = 0, returned_ = 0;
};

}  // namespace coll
