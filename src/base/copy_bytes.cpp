// SPDX-License-Identifier: Apache-2.0
// A copy by vectors of 16 bytes, which every x86-64 and AArch64 has.
#include "base/copy_bytes.hpp"

namespace coll {
namespace {

using Vector [[gnu::vector_size(16)]] = long long;

Vector load(const std::byte* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
void store(std::byte* to, Vector vector) {
  std::memcpy(to, &vector, sizeof vector);
}

}  // namespace

constinit std::atomic<bool> long_moves_crawl{false};

void copy_by_loop(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) {
    const Vector a = load(from + at), b = load(from + at + 16), c = load(from + at + 32),
                 d = load(from + at + 48);
    store(to + at, a);
    store(to + at + 16, b);
    store(to + at + 32, c);
    store(to + at + 48, d);
    asm volatile("" : : : "memory");  // or the compiler makes the loop a memcpy
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace coll
