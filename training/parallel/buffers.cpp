// SPDX-License-Identifier: Apache-2.0
// Lays buffers out, and broadcasts them.
#include "buffers.hpp"

namespace training {

Buffers::Buffers(const Units<float>& units, Traffic& traffic, Arena& arena) : traffic_(traffic) {
  std::size_t size = 0;
  for (const auto& unit : units)
    for (const ParameterInfo& buffer : unit->buffers()) size += buffer.size();
  if (size > 0) block_ = arena.take<float>(size, Use::parameters);
  float* next = block_.data();
  for (const auto& unit : units) {
    pointers_.emplace_back();
    for (const ParameterInfo& buffer : unit->buffers()) {
      pointers_.back().push_back(next);
      next += buffer.size();
    }
  }
}

void Buffers::broadcast() {
  if (block_.size() == 0) return;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_BROADCAST;
  call.send = block_.data();
  call.recv = block_.data();
  call.count = block_.size();
  call.type = dtype_of(Format::f32);
  call.root = 0;
  Pending pending = traffic_.start(call, "broadcast", block_.size() * sizeof(float));
  traffic_.wait(pending);
}

}  // namespace training
