// SPDX-License-Identifier: Apache-2.0
// A set of processors, as masks and lists write it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coll {

/// A set of small numbers: processors or NUMA nodes, as the operating system numbers them.
class CpuSet {
 public:
  /// Numbers from here on are refused: no machine has them, but broken files do.
  static constexpr int kLimit = 1 << 16;

  /// "0-3,8,10-11"; an empty text is the empty set. Nothing if it is no such list.
  static std::optional<CpuSet> from_list(std::string_view text);
  /// Words of 32 bits in hexadecimal, the highest first: "0x3,,0xffffffff" (hwloc), "3,00000000"
  /// (Linux, NCCL). An empty word is 0. "0xf...f" stands for an endless set and is refused.
  static std::optional<CpuSet> from_mask(std::string_view text);
  static CpuSet range(int first, int last);

  void add(int number);
  [[nodiscard]] bool contains(int number) const;
  [[nodiscard]] bool empty() const { return words_.empty(); }
  [[nodiscard]] int count() const;
  [[nodiscard]] std::vector<std::int32_t> numbers() const;
  [[nodiscard]] bool intersects(const CpuSet& other) const;
  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  [[nodiscard]] std::string list() const;
  friend bool operator==(const CpuSet&, const CpuSet&) = default;

 private:
  void trim();
  std::vector<std::uint64_t> words_;  ///< the lowest first; the last one is never 0
};

}  // namespace coll
