// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: the door, where a call's arguments are
// checked once.
#include "communicator/call_digest.hpp"
#include "communicator/communicator.hpp"

namespace coll {
namespace {

std::string in(const Call& call) {
  return std::string(name_of(call.collective)) + ": ";
}

Status bad(const Call& call, const std::string& what, std::string hint = {}) {
  return failed(Code::invalid_argument, in(call) + what, std::move(hint));
}

Status check_buffer(const Call& call, const char* name, const void* data, std::uint64_t bytes) {
  if (bytes == 0 || data != nullptr) return {};
  return bad(call,
             std::string(name) + " is null but " + std::to_string(bytes) + " bytes are expected");
}

/// In place exactly as NCCL has it, or not at all.
Status check_overlap(const Request& request, const InPlace& rule, std::uint64_t input_bytes,
                     std::uint64_t output_bytes, std::uint64_t block_bytes) {
  if (input_bytes == 0 || output_bytes == 0) return {};
  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  if (input + input_bytes <= output || output + output_bytes <= input) return {};
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

Status Communicator::check(const Request& request) const {
  const Call& call = request.call;
  if (static_cast<int>(call.type) >= kDataTypes) {
    return bad(call, "unknown dtype " + std::to_string(static_cast<int>(call.type)),
               "see coll_dtype_t");
  }
  if (static_cast<int>(call.op) >= kReduceOps) {
    return bad(call, "unknown op " + std::to_string(static_cast<int>(call.op)), "see coll_op_t");
  }
  const bool pair = call.collective == Collective::send || call.collective == Collective::recv;
  if (has_root(call.collective) && (call.root < 0 || call.root >= size_)) {
    return bad(call,
               std::string(pair ? "peer " : "root ") + std::to_string(call.root) +
                   " is not a rank of this communicator",
               "ranks are 0 to " + std::to_string(size_ - 1));
  }
  if (pair && call.root == rank_) {
    return bad(call, "the peer is this rank itself", "copy locally instead");
  }
  const std::uint64_t element = size_of(call.type);
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 2;
  if (call.count > kMost / element / whole_blocks(call.collective, size_)) {
    return bad(call, "count " + std::to_string(call.count) + " is more than memory can hold");
  }
  const BlockShape shape = block_shape(call.collective, size_, call.root, rank_);
  const std::uint64_t block = call.count * element;
  COLL_TRY(check_buffer(call, "send", request.input, block * shape.input));
  COLL_TRY(check_buffer(call, "recv", request.output, block * shape.output));
  return check_overlap(request, in_place(call.collective, size_, call.root, rank_),
                       block * shape.input, block * shape.output, block);
}

}  // namespace coll
