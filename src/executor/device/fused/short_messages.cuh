// SPDX-License-Identifier: Apache-2.0
// Short messages, whose data says itself that it has come (KernelRing): one way through the memory
// system where a message with a word takes two.
#pragma once
#include "executor/device/fused/message_numbers.cuh"

namespace coll::fused {

/// 8 bytes of a message, each half with the message's number.
struct Line {
  std::uint32_t low, low_number, high, high_number;
};
static_assert(sizeof(Line) == 16);

#if defined(__CUDACC__)
// Each half arrives whole.
__device__ inline Line load_line(const Line* from) {
  Line line;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(line.low), "=r"(line.low_number), "=r"(line.high), "=r"(line.high_number)
               : "l"(from)
               : "memory");
  return line;
}
__device__ inline void store_line(Line* to, const Line& line) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(line.low), "r"(line.low_number), "r"(line.high), "r"(line.high_number)
               : "memory");
}
#else
inline Line load_line(const Line* from) {
  auto* const halves = reinterpret_cast<std::uint64_t*>(const_cast<Line*>(from));
  const auto half = [&](int i) {
    return std::atomic_ref(halves[i]).load(std::memory_order_relaxed);
  };
  const std::uint64_t low = half(0), high = half(1);
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}
inline void store_line(Line* to, const Line& line) {
  auto* const halves = reinterpret_cast<std::uint64_t*>(to);
  const auto put = [&](int i, std::uint32_t data, std::uint32_t number) {
    std::atomic_ref(halves[i]).store(std::uint64_t{number} << 32 | data, std::memory_order_relaxed);
  };
  put(0, line.low, line.low_number);
  put(1, line.high, line.high_number);
}
#endif

__device__ inline Line* lines_of_slot(const FusedWay& way, std::uint32_t slot) {
  return at<Line>(way.lines + std::uint64_t{slot} * 2 * KernelRing::kShortBytes);
}

/// Lines of a message: an empty one has one.
__device__ inline std::uint32_t lines_of(std::uint64_t bytes) {
  return bytes <= 8 ? 1 : static_cast<std::uint32_t>((bytes + 7) / 8);
}
/// The lines that the sender writes.
__device__ inline std::uint32_t lines_sent(const FusedWay& way, const Message& message,
                                           std::uint64_t bytes) {
  return renews(way, message) ? KernelRing::kShortBytes / 8 : lines_of(bytes);
}

/// Waits for the line and gives its 8 bytes.
__device__ inline bool receive_line(std::uint64_t abort, const Line* line, std::uint32_t number,
                                    std::uint64_t& data) {
  Line got;
  if (!spin_until(abort, [&] {
        got = load_line(line);
        return got.low_number == number && got.high_number == number;
      }))
    return false;
  data = std::uint64_t{got.high} << 32 | got.low;
  return true;
}
__device__ inline void send_line(Line* line, std::uint32_t number, std::uint64_t data) {
  store_line(line, {static_cast<std::uint32_t>(data), number,
                    static_cast<std::uint32_t>(data >> 32), number});
}

}  // namespace coll::fused
