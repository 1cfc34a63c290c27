// SPDX-License-Identifier: Apache-2.0
// Objects that two parts of one process share, though they know only numbers of each other.
#pragma once
#include <cstdint>
#include <memory>

namespace coll {

/// Offers an object to the rest of this process, by a number that is never given again. The offer
/// ends with this; the object lives as long as somebody has it. Any thread.
class OfferedObject {
 public:
  explicit OfferedObject(std::weak_ptr<void> object);
  OfferedObject(const OfferedObject&) = delete;
  OfferedObject& operator=(const OfferedObject&) = delete;
  ~OfferedObject();

  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// The object that is offered by this number; null: none is. Whoever asks knows its type.
  static std::shared_ptr<void> find(std::uint64_t number);

 private:
  std::uint64_t number_;
};

}  // namespace coll
