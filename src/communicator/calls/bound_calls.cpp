// SPDX-License-Identifier: Apache-2.0
// Requests bound to their programs.
#include "communicator/calls/bound_calls.hpp"

#include "communicator/calls/call_digest.hpp"

namespace coll {

bool Request::same_lengths(const Request& a, const Request& b) {
  return a.blocks != nullptr && b.blocks != nullptr && *a.blocks == *b.blocks;
}

Buffers buffers_of(const Request& request, Rank rank, Rank size) {
  const Call& call = request.call;
  const std::uint64_t element = size_of(call.type);
  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  if (request.blocks != nullptr) {
    const auto buffer = [&](std::uintptr_t place, Space space) {
      const UnequalBlocks::Reach reach = request.blocks->reach(space);
      return Buffer{place + reach.begin * element, (reach.end - reach.begin) * element};
    };
    return {buffer(input, Space::input), buffer(output, Space::output)};
  }
  BlockShape shape = block_shape(call.collective, size, call.root, rank);
  if (call.is_with_itself(rank)) shape.input = 1;
  const std::uint64_t block = call.count * element;
  return {{input, block * shape.input}, {output, block * shape.output}};
}

BoundCall& BoundCalls::bind(const Request& request, Program& program) {
  if (!made_) {
    made_ = std::make_unique<BoundCall[]>(kCalls);
    calls_.store(made_.get(), std::memory_order_release);
  }
  BoundCall* bound = &made_[place_of(request)];
  const bool taken = bound->in_flight;
  if (taken && idle_.empty()) {
    spare_.push_back(std::make_unique<BoundCall>());
    idle_.reserve(spare_.capacity());
    idle_.push_back(spare_.back().get());
  }
  if (taken) bound = idle_.back();
  const Call& call = request.call;
  CallBinding binding;
  binding.input = static_cast<const std::byte*>(request.input);
  binding.output = static_cast<std::byte*>(request.output);
  binding.count = call.count;
  binding.element_bytes = size_of(call.type);
  const bool by_kernels = reduces(call.collective) && !is_own(call.op);
  binding.kernels = by_kernels ? &reduce::kernels(call.op, call.type) : nullptr;
  if (by_kernels) {
    binding.op = call.op;
    binding.type = call.type;
  }
  const Buffers buffers = buffers_of(request, rank_, size_);
  // Buffers that meet are in place: the door let nothing else pass.
  binding.apart = !overlap(buffers.input, buffers.output);
  const ResultStore::Choice choice = results_->of(buffers.output.bytes);
  binding.store = choice.store;
  // The rank's own place is not read again.
  binding.landed_store = buffers.output.bytes >= results_->beyond_own() ? reduce::Store::streaming
                                                                        : reduce::Store::cached;
  binding.blocks = request.blocks;
  bound->digest = digest_of(call, request.blocks != nullptr ? request.blocks->known : call.count,
                            rank_, program.shape.plan_digest);
  bound->run.bind(program, binding);
  counts_.begin(bound->repeats, bound->run.traffic);
  bound->settled = choice.settled;
  bound->blocks = request.kept_blocks();
  bound->request = request;
  if (taken) idle_.pop_back();  // nothing can fail any more
  return *bound;
}

}  // namespace coll
