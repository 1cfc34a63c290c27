// SPDX-License-Identifier: Apache-2.0
// Requests bound to their programs.
#include "communicator/engine/bound_calls.hpp"

#include <bit>

#include "communicator/engine/call_digest.hpp"

namespace coll {

bool overlap(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a),
             second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && first + a_bytes > second && second + b_bytes > first;
}

std::size_t BoundCalls::place_of(const Request& request) {
  const std::uint64_t key =
      (reinterpret_cast<std::uintptr_t>(request.input) +
       3 * reinterpret_cast<std::uintptr_t>(request.output) + request.call.count * 5 +
       static_cast<std::uint64_t>(request.call.collective)) *
      0x9e3779b97f4a7c15ULL;  // Fibonacci hashing (Knuth, TAOCP 3, section 6.4)
  static_assert(std::has_single_bit(kCalls));
  return key >> (64 - std::countr_zero(kCalls));
}

BoundCall& BoundCalls::bind(const Request& request, Program& program) {
  BoundCall* bound = &calls_[place_of(request)];
  const bool taken = bound->in_flight;
  if (taken && idle_.empty()) {
    spare_.push_back(std::make_unique<BoundCall>());
    idle_.reserve(spare_.capacity());
    idle_.push_back(spare_.back().get());
  }
  if (taken) bound = idle_.back();
  const Call& call = request.call;
  const Rank root = has_root(call.collective) ? call.root : 0;
  const std::uint64_t block_bytes = call.count * size_of(call.type);
  const BlockShape shape = block_shape(call.collective, size_, root, rank_);
  CallBinding binding;
  binding.input = static_cast<const std::byte*>(request.input);
  binding.output = static_cast<std::byte*>(request.output);
  binding.count = call.count;
  binding.element_bytes = size_of(call.type);
  binding.kernels = reduces(call.collective) ? &reduce::kernels(call.op, call.type) : nullptr;
  // Buffers that meet are in place: the door let nothing else pass.
  binding.apart = !overlap(request.input, block_bytes * shape.input, request.output,
                           block_bytes * shape.output);
  binding.store = results_->of(block_bytes * shape.output);
  bound->digest = digest_of(call, rank_, program.shape.plan_digest);
  bound->run.bind(program, binding);
  counts_.begin(bound->repeats, bound->run.traffic);
  bound->request = request;
  if (taken) idle_.pop_back();  // nothing can fail any more
  return *bound;
}

}  // namespace coll
