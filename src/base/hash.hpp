// SPDX-License-Identifier: Apache-2.0
// A hash to tell things apart with.
#pragma once
#include <cstdint>
#include <string_view>

namespace coll {

/// FNV-1a (Fowler, Noll and Vo) over bytes, and over words as if they were bytes. It is the same on
/// every machine, and no protection against anybody.
class Fnv1a {
 public:
  constexpr Fnv1a& word(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x100000001b3;
    return *this;
  }
  constexpr Fnv1a& text(std::string_view bytes) {
    for (const char byte : bytes) word(static_cast<unsigned char>(byte));
    return *this;
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace coll
