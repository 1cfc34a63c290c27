// SPDX-License-Identifier: Apache-2.0
// The door, where a call's arguments are checked once.
#include "communicator/calls/call_check.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "communicator/calls/call_digest.hpp"
#include "sys/cuda/cuda_driver.hpp"
#include "sys/memory/memory_places.hpp"

namespace coll {
namespace {

std::string in(const Call& call) {
  return call.name() + ": ";
}

Status bad(const Call& call, const std::string& what, std::string hint = {}) {
  return failed(Code::invalid_argument, in(call) + what, std::move(hint));
}

Status null_buffer(const Call& call, const char* name, std::uint64_t bytes) {
  return bad(call,
             std::string(name) + " is null but " + std::to_string(bytes) + " bytes are expected");
}

Status check_reached(const Call& call, const char* name, const Buffer& buffer) {
  const void* const begin = reinterpret_cast<const void*>(buffer.begin);
  if (buffer.bytes == 0 || place_of_memory(begin).kind == MemoryKind::host) return {};
  return coll::check_reached(in(call) + name, begin);
}

/// What to do where a reduction has no meaning.
const char* instead_of(ReduceOp op, DataType type) {
  switch (kind_of(type)) {
    case ElementKind::boolean:
      return "bool has sum, max and lor (any rank), prod, min and land (all ranks), lxor; for the "
             "share of ranks average a float type";
    case ElementKind::complex:
      return op == ReduceOp::min || op == ReduceOp::max
                 ? "complex numbers have no order: they have sum, prod and avg"
                 : "complex numbers have sum, prod and avg";
    case ElementKind::floating:
      return "bitwise operations need integers or bool: pass the bits as unsigned integers of the "
             "same size";
    case ElementKind::integer:
      break;
  }
  return "";
}

std::uint64_t own_offset(std::span<const UnequalBlocks::Block> blocks, Rank rank) {
  return blocks.size() == 1 ? blocks[0].offset : blocks[static_cast<std::size_t>(rank)].offset;
}

/// How far behind the begin of each buffer a rank's own block lies.
struct OwnOffsets {
  std::uint64_t input = 0, output = 0;
};
/// Where blocks are equal; in the unit of `block`.
OwnOffsets own_offsets(const InPlace& rule, std::uint64_t block) {
  const std::uint64_t offset = rule.offset_blocks * block;
  return rule.input_inside_output ? OwnOffsets{0, offset} : OwnOffsets{offset, 0};
}

/// In place exactly as NCCL has it, or not at all: a rank's own block is the same memory in both.
Status check_in_place(const Request& request, Rank rank, Rank size) {
  const Call& call = request.call;
  const InPlace rule = in_place(call.collective, size, call.root, rank);
  if (!rule.allowed) return bad(call, "send and recv overlap", "use separate buffers");
  const auto [of_input, of_output] = request.blocks == nullptr
                                         ? own_offsets(rule, call.count)
                                         : OwnOffsets{own_offset(request.blocks->input, rank),
                                                      own_offset(request.blocks->output, rank)};
  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  if (input + of_input * size_of(call.type) == output + of_output * size_of(call.type)) return {};
  const std::uint64_t offset = std::max(of_input, of_output);
  std::string hint = "use separate buffers";
  hint += offset == 0 ? ", or the same pointer for both"
                      : std::string(", or ") + (of_input == 0 ? "send = recv" : "recv = send") +
                            " + " + std::to_string(offset) + " elements for in place";
  return bad(call, "send and recv overlap", std::move(hint));
}

/// Blocks that are written may not share an element.
Status check_apart(const Call& call, const char* buffer,
                   std::span<const UnequalBlocks::Block> blocks) {
  std::vector<UnequalBlocks::Block> sorted;
  for (const UnequalBlocks::Block& block : blocks) {
    if (block.count != 0) sorted.push_back(block);
  }
  std::ranges::sort(sorted, {}, &UnequalBlocks::Block::offset);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const UnequalBlocks::Block& before = sorted[i - 1];
    if (before.offset + before.count <= sorted[i].offset) continue;
    return bad(call,
               std::string("two blocks of ") + buffer + " share element " +
                   std::to_string(sorted[i].offset),
               "give displacements that leave room for the counts");
  }
  return {};
}

/// Each part is a call, and what the parts write is apart.
Status check_parts(const Request& request, Rank rank, Rank size) {
  const Call& call = request.call;
  const BlockShape shape = block_shape(call.collective, size, call.root, rank);
  const InPlace rule = in_place(call.collective, size, call.root, rank);
  const auto is_in_place = [&rule](std::uint64_t block, const Buffer& in, const Buffer& out) {
    const auto [of_input, of_output] = own_offsets(rule, block);
    return rule.allowed && in.begin + of_input == out.begin + of_output;
  };
  const CudaDriver* const driver = loaded_cuda_driver();
  const auto reached = [all = driver == nullptr || driver->copies()](const void* data) {
    return all || place_of_memory(data).kind == MemoryKind::host;
  };
  std::vector<Buffer> written;
  written.reserve(request.extras->parts->list.size());
  std::size_t number = 0;
  for (const CallPart& part : request.extras->parts->list) {
    const std::uint64_t block = part.count * size_of(call.type);
    const Buffer input{reinterpret_cast<std::uintptr_t>(part.input), block * shape.input};
    const Buffer output{reinterpret_cast<std::uintptr_t>(part.output), block * shape.output};
    // The whole call's names are right; what can still be wrong of a part are its buffers.
    const bool plain = part.input != nullptr && part.output != nullptr &&
                       (!overlap(input, output) || is_in_place(block, input, output)) &&
                       reached(part.input) && reached(part.output);
    if (!plain) {
      Request each;
      each.call = call;
      each.call.form = CallForm::usual;
      each.call.count = part.count;
      each.input = part.input;
      each.output = part.output;
      const Status checked = check_request(each, rank, size);
      if (!checked.ok()) return checked.with_context("part " + std::to_string(number));
    }
    written.push_back(output);
    ++number;
  }
  // Most programs give their parts in the order of their addresses: to sort them takes longer.
  if (!std::ranges::is_sorted(written, {}, &Buffer::begin)) {
    std::ranges::sort(written, {}, &Buffer::begin);
  }
  const Buffer* before = nullptr;
  for (const Buffer& each : written) {
    if (each.bytes == 0) continue;
    if (before != nullptr && overlap(*before, each)) {
      return bad(call, "recv of two parts overlaps", "give each part memory of its own");
    }
    before = &each;
  }
  return {};
}

}  // namespace

Status check_host_memory(const std::string& name, const void* data) {
  const MemoryPlace place = place_of_memory(data);
  if (place.kind == MemoryKind::host) return {};
  return failed(Code::unsupported,
                name + " is memory of CUDA device " + std::to_string(place.device) +
                    ", which processors cannot read",
                "copy it to memory of the host (cudaMemcpy)");
}

Status check_reached(const std::string& name, const void* data) {
  const MemoryPlace place = place_of_memory(data);
  if (place.kind == MemoryKind::host) return {};
  const std::string missing = loaded_cuda_driver()->missing();
  if (missing.empty()) return {};
  return failed(Code::unsupported,
                name + " is memory of CUDA device " + std::to_string(place.device) +
                    ", and the CUDA driver that is loaded cannot copy it: it has no " + missing,
                "install a newer driver, or copy it to memory of the host");
}

Status check_names(const Call& call) {
  if (static_cast<int>(call.type) >= kDataTypes) {
    return bad(call, "unknown dtype " + std::to_string(static_cast<int>(call.type)),
               "see coll_dtype_t");
  }
  if (static_cast<int>(call.op) >= kReduceOps && !is_own(call.op)) {
    return bad(call, "unknown op " + std::to_string(static_cast<int>(call.op)), "see coll_op_t");
  }
  if (!has_meaning(call.op, call.type)) {
    return bad(
        call,
        std::string(name_of(call.op)) + " has no meaning for " + std::string(name_of(call.type)),
        instead_of(call.op, call.type));
  }
  return {};
}

Status check_call(const Call& call, Rank size) {
  COLL_TRY(check_names(call));
  const bool from_any =
      call.tagged() && call.collective == Collective::recv && call.root == kNoRank;
  if (has_root(call.collective) && !from_any) {
    if (call.root < 0 || call.root >= size) {
      return bad(call,
                 std::string(call.is_pair() ? "peer " : "root ") + std::to_string(call.root) +
                     " is not a rank of this communicator",
                 "ranks are 0 to " + std::to_string(size - 1));
    }
  }
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 2;
  const std::uint64_t blocks = call.unequal() ? 1 : whole_blocks(call.collective, size);
  if (call.count > kMost / size_of(call.type) / blocks) {
    return bad(call, "count " + std::to_string(call.count) + " is more than memory can hold");
  }
  return {};
}

Status check_request(const Request& request, Rank rank, Rank size) {
  const Call& call = request.call;
  COLL_TRY(check_call(call, size));
  if (call.has_parts()) return check_parts(request, rank, size);
  if (call.tagged()) {
    const std::int32_t tag = request.extras->tag;
    const bool any = tag == kAnyTag && call.collective == Collective::recv;
    if (tag < 0 && !any) {
      return bad(call, "tag " + std::to_string(tag) + " is negative",
                 "tags are 0 to 2147483647; a recv may have COLL_ANY_TAG");
    }
    const coll_message_t* const message = request.extras->message;
    if (message != nullptr && (message->size < sizeof *message || message->version == 0)) {
      return bad(call, "message is not initialised", "begin with COLL_MESSAGE_INIT");
    }
  }
  const bool with_itself = call.is_with_itself(rank);
  if (with_itself && (call.collective == Collective::send || request.input == nullptr)) {
    return bad(call, "the peer is this rank itself",
               "put the send and the recv into one group (coll_group_start)");
  }
  if (request.blocks != nullptr) COLL_TRY(check_apart(call, "recv", request.blocks->output));
  const auto [input, output] = buffers_of(request, rank, size);
  if (input.bytes != 0 && request.input == nullptr) return null_buffer(call, "send", input.bytes);
  if (output.bytes != 0 && request.output == nullptr)
    return null_buffer(call, "recv", output.bytes);
  COLL_TRY(check_reached(call, "send", input));
  COLL_TRY(check_reached(call, "recv", output));
  if (!overlap(input, output)) return {};
  // In place a block of send is written, too.
  if (request.blocks != nullptr) COLL_TRY(check_apart(call, "send", request.blocks->input));
  return check_in_place(request, rank, size);
}

}  // namespace coll
