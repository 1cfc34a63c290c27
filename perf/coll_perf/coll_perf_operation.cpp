// SPDX-License-Identifier: Apache-2.0
// The tables of operations, element types and reductions.
#include "coll_perf/coll_perf_operation.hpp"

#include <cctype>

namespace perf {
namespace {

constexpr OperationTraits kOperations[] = {
    {"all_reduce", "all_reduce", COLL_ALL_REDUCE, true, false, false, true, true},
    {"reduce", "reduce", COLL_REDUCE, true, true, false, true, true},
    {"broadcast", "broadcast", COLL_BROADCAST, false, true, false, true, false},
    {"all_gather", "all_gather", COLL_ALL_GATHER, false, false, true, true, false},
    {"reduce_scatter", "reduce_scatter", COLL_REDUCE_SCATTER, true, false, true, true, true},
    {"all_to_all", "alltoall", COLL_ALL_TO_ALL, false, false, true, false, false},
    {"gather", "gather", COLL_GATHER, false, true, true, true, false},
    {"scatter", "scatter", COLL_SCATTER, false, true, true, true, false},
    {"sendrecv", "sendrecv", COLL_SEND, false, false, false, false, false},
    {"sendrecv_tagged", "sendrecv_tagged", COLL_SEND, false, false, false, false, false},
    {"sendrecv_ring", "sendrecv_ring", COLL_SEND, false, false, false, false, false},
    {"all_gatherv", "all_gatherv", COLL_ALL_GATHER, false, false, true, true, false},
    {"reduce_scatterv", "reduce_scatterv", COLL_REDUCE_SCATTER, true, false, true, true, true},
    {"all_to_allv", "all_to_allv", COLL_ALL_TO_ALL, false, false, true, false, false},
    {"gatherv", "gatherv", COLL_GATHER, false, true, true, true, false},
    {"scatterv", "scatterv", COLL_SCATTER, false, true, true, true, false},
    {"barrier", "barrier", COLL_BARRIER, false, false, false, false, false},
};

struct DtypeTraits {
  const char* name;
  std::size_t bytes;
  const char* aliases[2];
};
constexpr DtypeTraits kDtypes[COLL_DTYPE_COUNT] = {
    {"int8", 1, {"i8", "char"}},
    {"uint8", 1, {"u8", "byte"}},
    {"int16", 2, {"i16", "short"}},
    {"uint16", 2, {"u16", "ushort"}},
    {"int32", 4, {"i32", "int"}},
    {"uint32", 4, {"u32", "uint"}},
    {"int64", 8, {"i64", "long"}},
    {"uint64", 8, {"u64", "ulong"}},
    {"half", 2, {"float16", "f16"}},
    {"bfloat16", 2, {"bf16", "bfloat"}},
    {"float", 4, {"float32", "f32"}},
    {"double", 8, {"float64", "f64"}},
    {"fp8_e4m3", 1, {"f8e4m3", "float8e4m3"}},
    {"fp8_e5m2", 1, {"f8e5m2", "float8e5m2"}},
    {"bool", 1, {"boolean", "b8"}},
    {"complex64", 8, {"c64", "cfloat"}},
    {"complex128", 16, {"c128", "cdouble"}},
};
constexpr const char* kRedops[COLL_OP_COUNT] = {"sum", "prod", "min",  "max", "avg", "band",
                                                "bor", "bxor", "land", "lor", "lxor"};

std::string letters(std::string_view name) {
  std::string out;
  for (char c : name)
    if (c != '_' && c != '-') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

const OperationTraits& traits(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

Operation equal_blocks(Operation operation) {
  switch (operation) {
    case Operation::sendrecv_tagged:
      return Operation::sendrecv;
    case Operation::all_gatherv:
      return Operation::all_gather;
    case Operation::reduce_scatterv:
      return Operation::reduce_scatter;
    case Operation::all_to_allv:
      return Operation::all_to_all;
    case Operation::gatherv:
      return Operation::gather;
    case Operation::scatterv:
      return Operation::scatter;
    default:
      return operation;
  }
}

const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> list;
    for (std::size_t i = 0; i < std::size(kOperations); ++i)
      list.push_back(static_cast<Operation>(i));
    return list;
  }();
  return all;
}

std::optional<Operation> parse_operation(std::string_view name) {
  for (Operation operation : all_operations())
    if (letters(name) == letters(traits(operation).name)) return operation;
  return std::nullopt;
}

std::optional<coll_dtype_t> parse_dtype(std::string_view name) {
  const std::string wanted = letters(name);
  for (std::size_t i = 0; i < COLL_DTYPE_COUNT; ++i)
    if (wanted == letters(kDtypes[i].name) || wanted == kDtypes[i].aliases[0] ||
        wanted == kDtypes[i].aliases[1])
      return static_cast<coll_dtype_t>(i);
  return std::nullopt;
}

std::optional<coll_op_t> parse_redop(std::string_view name) {
  for (std::size_t i = 0; i < COLL_OP_COUNT; ++i)
    if (letters(name) == kRedops[i]) return static_cast<coll_op_t>(i);
  return std::nullopt;
}

const char* dtype_name(coll_dtype_t type) {
  return kDtypes[type].name;
}
const char* redop_name(coll_op_t op) {
  return kRedops[op];
}
bool has_meaning(coll_op_t op, coll_dtype_t type) {
  if (op == COLL_AVG) return type != COLL_BOOL;
  const bool bitwise = op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR;
  if (type >= COLL_COMPLEX64) return op == COLL_SUM || op == COLL_PROD;
  return !bitwise || type < COLL_FLOAT16 || type == COLL_BOOL;
}
std::size_t dtype_bytes(coll_dtype_t type) {
  return kDtypes[type].bytes;
}

double bus_factor(Operation operation, int ranks) {
  const double n = ranks;
  if (operation == Operation::all_reduce) return 2 * (n - 1) / n;
  return traits(operation).divides ? (n - 1) / n : 1.0;
}

Shape shape_of(Operation operation, std::size_t bytes, int ranks, std::size_t element_bytes) {
  if (operation == Operation::barrier) return {};
  const std::size_t blocks = traits(operation).divides ? static_cast<std::size_t>(ranks) : 1;
  const std::size_t count = bytes / element_bytes / blocks;
  return {count * blocks * element_bytes, count};
}

}  // namespace perf
