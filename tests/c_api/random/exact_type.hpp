// SPDX-License-Identifier: Apache-2.0
// Element types whose reductions have the same bits in any order, with their own arithmetic.
#pragma once
#include <collectives/collectives.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"

namespace collectives::testing {

/// An integer type or bool. Its elements are int64 here: the same number, or the same bits where
/// the type is uint64.
class ExactType {
 public:
  static constexpr coll_dtype_t kAll[] = {COLL_INT8,   COLL_UINT8,  COLL_INT16,
                                          COLL_UINT16, COLL_INT32,  COLL_UINT32,
                                          COLL_INT64,  COLL_UINT64, COLL_BOOL};
  static constexpr coll_op_t kOps[] = {COLL_SUM, COLL_PROD, COLL_MIN,  COLL_MAX, COLL_BAND,
                                       COLL_BOR, COLL_BXOR, COLL_LAND, COLL_LOR, COLL_LXOR};

  explicit ExactType(coll_dtype_t type) : type_(type) {}
  [[nodiscard]] coll_dtype_t get() const { return type_; }
  [[nodiscard]] std::size_t bytes() const { return coll_dtype_size(type_); }

  /// The element that keeps the number's low bits.
  [[nodiscard]] std::int64_t element(std::int64_t number) const {
    switch (type_) {
      case COLL_INT8:
        return static_cast<std::int8_t>(number);
      case COLL_UINT8:
        return static_cast<std::uint8_t>(number);
      case COLL_INT16:
        return static_cast<std::int16_t>(number);
      case COLL_UINT16:
        return static_cast<std::uint16_t>(number);
      case COLL_INT32:
        return static_cast<std::int32_t>(number);
      case COLL_UINT32:
        return static_cast<std::uint32_t>(number);
      case COLL_BOOL:
        return number & 1;
      default:
        return number;
    }
  }

  [[nodiscard]] std::int64_t product(std::int64_t a, std::int64_t b) const {
    return element(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b)));
  }
  /// For bool, sum and max are the logical or, prod and min the logical and.
  [[nodiscard]] std::int64_t reduced(coll_op_t op, std::int64_t a, std::int64_t b) const {
    const bool is_bool = type_ == COLL_BOOL;
    switch (op) {
      case COLL_SUM:
        return is_bool ? a | b
                       : element(static_cast<std::int64_t>(static_cast<std::uint64_t>(a) +
                                                           static_cast<std::uint64_t>(b)));
      case COLL_PROD:
        return product(a, b);
      case COLL_MIN:
        return less(a, b) ? a : b;
      case COLL_MAX:
        return less(a, b) ? b : a;
      case COLL_BAND:
        return a & b;
      case COLL_BOR:
        return a | b;
      case COLL_BXOR:
        return a ^ b;
      case COLL_LAND:
        return a != 0 && b != 0 ? 1 : 0;
      case COLL_LOR:
        return a != 0 || b != 0 ? 1 : 0;
      default:  // COLL_LXOR
        return (a != 0) != (b != 0) ? 1 : 0;
    }
  }

  /// As a call reads and writes them.
  [[nodiscard]] std::vector<std::byte> packed(const Values& elements) const {
    std::vector<std::byte> all(elements.size() * bytes());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::memcpy(all.data() + i * bytes(), &elements[i], bytes());  // little-endian
    }
    return all;
  }

 private:
  [[nodiscard]] bool less(std::int64_t a, std::int64_t b) const {
    if (type_ != COLL_UINT64) return a < b;
    return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);
  }

  coll_dtype_t type_;
};

}  // namespace collectives::testing
