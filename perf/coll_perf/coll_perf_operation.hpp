// SPDX-License-Identifier: Apache-2.0
// The operations as coll-perf sees them: names, sizes and bus bandwidth factors, all as nccl-tests
// has them.
#pragma once
#include <collectives/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

enum class Operation {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  sendrecv,  ///< to and fro between the ranks of a pair
  sendrecv_tagged,
  sendrecv_ring,  ///< to the next rank and from the one before, in a group: nccl-tests' sendrecv
  all_gatherv,    ///< this and the next four: with the equal blocks of the operation without the v
  reduce_scatterv,
  all_to_allv,
  gatherv,
  scatterv,
  barrier,
};
/// all_gather for all_gatherv, sendrecv for sendrecv_tagged: what goes in and must come out is the
/// same.
Operation equal_blocks(Operation operation);

struct OperationTraits {
  const char* name;
  const char* peers_name;  ///< what the CSV of the peers calls it
  coll_operation_t api;
  bool reduces;
  bool rooted;
  bool divides;     ///< the size names a buffer that holds one block per rank
  bool in_place;    ///< the API allows it
  bool reads_recv;  ///< in place, a call consumes what the call before it wrote
};
const OperationTraits& traits(Operation operation);
const std::vector<Operation>& all_operations();

/// "all_reduce", "allreduce" and "all-reduce" are the same.
std::optional<Operation> parse_operation(std::string_view name);
/// nccl-tests' names (half, float, double…) and the plain ones (float16, f16…).
std::optional<coll_dtype_t> parse_dtype(std::string_view name);
std::optional<coll_op_t> parse_redop(std::string_view name);
const char* dtype_name(coll_dtype_t type);  ///< as nccl-tests prints it
const char* redop_name(coll_op_t op);
bool has_meaning(coll_op_t op, coll_dtype_t type);  ///< does the library reduce such elements so?
std::size_t dtype_bytes(coll_dtype_t type);

/// What busbw is to algbw (nccl-tests' PERFORMANCE.md; gather and scatter from its sources).
double bus_factor(Operation operation, int ranks);

/// One size, rounded down to what the ranks can share out.
struct Shape {
  std::size_t bytes = 0;  ///< the larger of a rank's two buffers: the size that nccl-tests prints
  std::size_t count = 0;  ///< the argument of the call, elements
};
Shape shape_of(Operation operation, std::size_t bytes, int ranks, std::size_t element_bytes);

}  // namespace perf
