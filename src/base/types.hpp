// SPDX-License-Identifier: Apache-2.0
// The library's words (ranks, types, operations) as C++ values.
#pragma once
#include <collectives/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coll {

/// A rank of a communicator, 0 … size-1; kNoRank where there is none.
using Rank = std::int32_t;
inline constexpr Rank kNoRank = -1;

enum class DataType : std::uint8_t {
  int8 = COLL_INT8,
  uint8 = COLL_UINT8,
  int16 = COLL_INT16,
  uint16 = COLL_UINT16,
  int32 = COLL_INT32,
  uint32 = COLL_UINT32,
  int64 = COLL_INT64,
  uint64 = COLL_UINT64,
  float16 = COLL_FLOAT16,
  bfloat16 = COLL_BFLOAT16,
  float32 = COLL_FLOAT32,
  float64 = COLL_FLOAT64,
  float8_e4m3 = COLL_FLOAT8_E4M3,
  float8_e5m2 = COLL_FLOAT8_E5M2,
  boolean = COLL_BOOL,
  complex64 = COLL_COMPLEX64,
  complex128 = COLL_COMPLEX128,
};
inline constexpr int kDataTypes = COLL_DTYPE_COUNT;

enum class ReduceOp : std::uint8_t {
  sum = COLL_SUM,
  prod = COLL_PROD,
  min = COLL_MIN,
  max = COLL_MAX,
  avg = COLL_AVG,
  band = COLL_BAND,
  bor = COLL_BOR,
  bxor = COLL_BXOR,
  land = COLL_LAND,
  lor = COLL_LOR,
  lxor = COLL_LXOR,
  // The program's own (coll_reduction_t), which no coll_op_t names.
  own = 0xfd,           ///< commutes
  own_in_order = 0xfe,  ///< does not
};
inline constexpr int kReduceOps = COLL_OP_COUNT;  ///< but for the program's own

constexpr bool is_own(ReduceOp op) {
  return op == ReduceOp::own || op == ReduceOp::own_in_order;
}

/// The order in which a reduction combines the ranks' elements.
enum class SumOrder : std::uint8_t {
  any,  ///< the algorithm's
  /// The tree: where n ranks are not 2^k but more, ranks 2i and 2i+1 are combined first, for the
  /// first n - 2^k values of i. The 2^k sums, in the order of ranks, are combined in pairs of
  /// neighbours, then those sums, until one is left.
  tree,
  /// The tree, and of two operands the lower ranks' is the left one: for what does not commute.
  sided_tree,
};

/// The operations a user can ask for.
enum class Collective : std::uint8_t {
  all_reduce = COLL_ALL_REDUCE,
  reduce = COLL_REDUCE,
  broadcast = COLL_BROADCAST,
  all_gather = COLL_ALL_GATHER,
  reduce_scatter = COLL_REDUCE_SCATTER,
  all_to_all = COLL_ALL_TO_ALL,
  gather = COLL_GATHER,
  scatter = COLL_SCATTER,
  send = COLL_SEND,
  recv = COLL_RECV,
  barrier = COLL_BARRIER,
};
inline constexpr int kCollectives = COLL_OPERATION_COUNT;

/// Which payloads may stay in the sender's memory until the receiver takes them, where a transport
/// can do that; the others go through slots, copied in by the sender and out by the receiver.
enum class Loans : std::uint8_t {
  none,
  shared,     ///< those in memory that the receiver reads in place
  if_faster,  ///< these; others are fetched if that is found faster, but never results of sums
  all,        ///< `shared`, and those that it only copies, which it fetches: one copy, not two
};

/// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  constexpr std::array<std::uint8_t, kDataTypes> sizes{1, 1, 2, 2, 4, 4, 8, 8, 2,
                                                       2, 4, 8, 1, 1, 1, 8, 16};
  return sizes[static_cast<std::size_t>(type)];
}

/// A chunk of a message is never shorter.
inline constexpr std::size_t kLongestElement = size_of(DataType::complex128);

constexpr std::string_view name_of(DataType type) {
  constexpr std::array<std::string_view, kDataTypes> names{
      "int8", "uint8", "int16", "uint16", "int32",  "uint32", "int64",     "uint64",    "f16",
      "bf16", "f32",   "f64",   "f8e4m3", "f8e5m2", "bool",   "complex64", "complex128"};
  return names[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  if (is_own(op)) return op == ReduceOp::own ? "own" : "own in order";
  constexpr std::array<std::string_view, kReduceOps> names{
      "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor"};
  return names[static_cast<std::size_t>(op)];
}

/// What the elements of a type are, as far as reductions are concerned.
enum class ElementKind : std::uint8_t { integer, floating, boolean, complex };

constexpr ElementKind kind_of(DataType type) {
  if (type == DataType::boolean) return ElementKind::boolean;
  if (type >= DataType::complex64) return ElementKind::complex;
  return type >= DataType::float16 ? ElementKind::floating : ElementKind::integer;
}

/// May the operation reduce elements of the type? Every pair that has a meaning works everywhere,
/// and every other pair is refused.
constexpr bool has_meaning(ReduceOp op, DataType type) {
  using enum ReduceOp;
  const ElementKind kind = kind_of(type);
  switch (op) {
    case sum:
    case prod:
      return true;
    case avg:
      return kind != ElementKind::boolean;
    case band:
    case bor:
    case bxor:
      return kind == ElementKind::integer || kind == ElementKind::boolean;
    case min:
    case max:
    case land:
    case lor:
    case lxor:
      break;
    case own:
    case own_in_order:
      return true;  // what the elements mean is the program's business
  }
  return kind != ElementKind::complex;
}

/// Do the bits of the reduction depend on the order in which it combines elements?
constexpr bool depends_on_order(ReduceOp op, DataType type) {
  if (is_own(op)) return true;
  const ElementKind kind = kind_of(type);
  return (kind == ElementKind::floating || kind == ElementKind::complex) &&
         (op == ReduceOp::sum || op == ReduceOp::prod || op == ReduceOp::avg);
}

constexpr std::string_view name_of(Collective collective) {
  constexpr std::array<std::string_view, kCollectives> names{
      "all_reduce", "reduce",  "broadcast", "all_gather", "reduce_scatter", "all_to_all",
      "gather",     "scatter", "send",      "recv",       "barrier"};
  return names[static_cast<std::size_t>(collective)];
}

/// The operation of that name.
constexpr std::optional<Collective> find_collective(std::string_view name) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (name_of(collective) == name) return collective;
  }
  return std::nullopt;
}

/// Has the operation a root (for send and recv: a peer)?
constexpr bool has_root(Collective collective) {
  using enum Collective;
  return collective == reduce || collective == broadcast || collective == gather ||
         collective == scatter || collective == send || collective == recv;
}

/// Does the operation combine elements?
constexpr bool reduces(Collective collective) {
  using enum Collective;
  return collective == all_reduce || collective == reduce || collective == reduce_scatter;
}

}  // namespace coll
