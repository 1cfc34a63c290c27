// SPDX-License-Identifier: Apache-2.0
// Memory for reductions to read and write, and elements to put there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "reduce_oracle.hpp"

namespace coll::test {

inline constexpr std::size_t kGuard = 128;  // bytes on both sides that must stay as they are

/// `count` elements at any byte address, between guards.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t misaligned)
      : bytes_(bytes), storage_(bytes + 2 * kGuard + 128, std::byte{0xa5}) {
    const auto base = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    start_ = kGuard + (64 - base % 64) % 64 + misaligned;
  }
  std::byte* data() { return storage_.data() + start_; }
  Element get(std::size_t i, std::size_t size) {
    Element e = 0;
    std::memcpy(&e, data() + i * size, size);
    return e;
  }
  void set(std::size_t i, std::size_t size, Element e) { std::memcpy(data() + i * size, &e, size); }
  bool guards_intact() {
    for (std::size_t i = 0; i < storage_.size(); ++i)
      if ((i < start_ || i >= start_ + bytes_) && storage_[i] != std::byte{0xa5}) return false;
    return true;
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::size_t start_;
};

/// A third each: the odd cases of the type, any bits, and values near one another.
inline Element any_element(DataType type, std::mt19937_64& random) {
  const unsigned bits = 8 * static_cast<unsigned>(size_of(type));
  const Element all = ~Element{0} >> (64 - bits);
  const auto kind = random() % 3;
  if (kind == 0) return random() & all;
  if (!is_float(type)) {
    if (kind == 1) return (random() % 16 - 8) & all;
    const Element most = all >> 1;
    const Element odd[] = {0, 1, all, most, most + 1, all - 1};
    return odd[random() % std::size(odd)];
  }
  const Format& f = format_of(type);
  const Element sign = random() % 2 ? sign_bit(f) : 0;
  if (kind == 1) return sign | encode(f, 1.0 + static_cast<double>(random() % 4096) / 512.0);
  const Element least = Element{1} << f.mantissa;  // the least normal number
  const Element odd[] = {0,
                         1,
                         least - 1,
                         least,
                         least + 1,
                         f.most - 1,
                         f.most,
                         f.most + 1,  // signals
                         f.nan,
                         f.nan | (random() % (least / 2)),  // quiet, with a payload
                         f.most - 1 - random() % 4,
                         random() % least};
  return sign | odd[random() % std::size(odd)];
}

/// The bytes of so many of them, of complex types too.
inline std::vector<std::byte> any_elements(DataType type, std::size_t count,
                                           std::mt19937_64& random) {
  const std::size_t size = size_of(part_of(type));
  std::vector<std::byte> all(count * size_of(type));
  for (std::size_t at = 0; at < all.size(); at += size) {
    const Element e = any_element(part_of(type), random);
    std::memcpy(&all[at], &e, size);
  }
  return all;
}

}  // namespace coll::test
