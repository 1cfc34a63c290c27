// SPDX-License-Identifier: Apache-2.0
// The door, where a call's arguments are checked once.
#include "communicator/engine/call_check.hpp"

#include "communicator/engine/call_digest.hpp"

namespace coll {
namespace {

std::string in(const Call& call) {
  return std::string(name_of(call.collective)) + ": ";
}

Status bad(const Call& call, const std::string& what, std::string hint = {}) {
  return failed(Code::invalid_argument, in(call) + what, std::move(hint));
}

Status null_buffer(const Call& call, const char* name, std::uint64_t bytes) {
  return bad(call,
             std::string(name) + " is null but " + std::to_string(bytes) + " bytes are expected");
}

/// In place exactly as NCCL has it, or not at all.
Status check_in_place(const Request& request, const InPlace& rule, std::uint64_t block_bytes) {
  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  const std::uintptr_t offset = rule.offset_blocks * block_bytes;
  if (rule.allowed &&
      (rule.input_inside_output ? input == output + offset : output == input + offset)) {
    return {};
  }
  std::string hint = "use separate buffers";
  if (rule.allowed) {
    hint += rule.offset_blocks == 0
                ? ", or the same pointer for both"
                : std::string(", or ") +
                      (rule.input_inside_output ? "send = recv" : "recv = send") + " + " +
                      std::to_string(rule.offset_blocks) + " * count elements for in place";
  }
  return bad(request.call, "send and recv overlap", std::move(hint));
}

}  // namespace

Status check_names(const Call& call) {
  if (static_cast<int>(call.type) >= kDataTypes) {
    return bad(call, "unknown dtype " + std::to_string(static_cast<int>(call.type)),
               "see coll_dtype_t");
  }
  if (static_cast<int>(call.op) >= kReduceOps) {
    return bad(call, "unknown op " + std::to_string(static_cast<int>(call.op)), "see coll_op_t");
  }
  return {};
}

Status check_call(const Call& call, Rank size) {
  COLL_TRY(check_names(call));
  if (has_root(call.collective)) {
    if (call.root < 0 || call.root >= size) {
      return bad(call,
                 std::string(call.is_pair() ? "peer " : "root ") + std::to_string(call.root) +
                     " is not a rank of this communicator",
                 "ranks are 0 to " + std::to_string(size - 1));
    }
  }
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 2;
  if (call.count > kMost / size_of(call.type) / whole_blocks(call.collective, size)) {
    return bad(call, "count " + std::to_string(call.count) + " is more than memory can hold");
  }
  return {};
}

Status check_request(const Request& request, Rank rank, Rank size) {
  const Call& call = request.call;
  COLL_TRY(check_call(call, size));
  const bool with_itself = call.is_with_itself(rank);
  if (with_itself && (call.collective == Collective::send || request.input == nullptr)) {
    return bad(call, "the peer is this rank itself",
               "put the send and the recv into one group (coll_group_start)");
  }
  const std::uint64_t block = call.count * size_of(call.type);
  BlockShape shape = block_shape(call.collective, size, call.root, rank);
  if (with_itself) shape.input = 1;
  const std::uint64_t input_bytes = block * shape.input, output_bytes = block * shape.output;
  if (input_bytes != 0 && request.input == nullptr) return null_buffer(call, "send", input_bytes);
  if (output_bytes != 0 && request.output == nullptr)
    return null_buffer(call, "recv", output_bytes);
  if (!overlap(request.input, input_bytes, request.output, output_bytes)) return {};
  return check_in_place(request, in_place(call.collective, size, call.root, rank), block);
}

}  // namespace coll
