// SPDX-License-Identifier: Apache-2.0
// Products by the kernels of prod, which say what every type's product is.
#include "communicator/calls/scaled_input.hpp"

#include <algorithm>
#include <cstring>

#include "reduce/reduce.hpp"

namespace coll {

ScaledInput::ScaledInput(Request& request, Rank rank, Rank size, ScratchPool& pool)
    : given_(request), input_(buffers_of(request, rank, size).input) {
  const Collective collective = request.call.collective;
  const bool in_output = collective == Collective::all_reduce ||
                         (collective == Collective::reduce && request.call.root == rank);
  if (!in_output) own_ = pool.take(input_.bytes, ScratchUse::call);
  products_ = in_output ? static_cast<std::byte*>(request.output) : own_.data();
  request.input = moved(request.input, input_, products_);
}

void ScaledInput::compute() const noexcept {
  const Factor& factor = *given_.extras->factor;
  const std::size_t element = size_of(given_.call.type);
  constexpr std::size_t kPiece = 2048;
  alignas(64) std::byte factors[kPiece];
  const void* const one = factor.late != nullptr ? factor.late : factor.value.data();
  for (std::size_t at = 0; at < kPiece; at += element) std::memcpy(factors + at, one, element);
  const reduce::Combine multiply = reduce::kernels(ReduceOp::prod, given_.call.type).combine[0];
  const auto* const input = reinterpret_cast<const std::byte*>(input_.begin);
  for_each_run(given_, Space::input, input_, [&](std::uint64_t at, std::uint64_t left) {
    while (left > 0) {
      const std::uint64_t bytes = std::min<std::uint64_t>(kPiece, left);
      multiply(products_ + at, input + at, factors, bytes / element, 1);
      at += bytes;
      left -= bytes;
    }
  });
}

}  // namespace coll
