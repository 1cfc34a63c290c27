// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself with a call's buffers.
#include "communicator/calls/local_steps.hpp"

namespace coll {
namespace {

/// If the parts' buffers lie one behind another, points the request at the whole: then it is an
/// ordinary call.
bool lie_in_one_piece(Request& request, Rank rank, Rank size) {
  const BlockShape shape = block_shape(request.call.collective, size, request.call.root, rank);
  if (shape.input > 1 || shape.output > 1) return false;
  Request whole = request;
  std::uint64_t before = 0;  // bytes
  for (const CallPart& part : request.extras->parts->list) {
    if (part.count == 0) continue;
    if (before == 0) {
      whole.input = shape.input != 0 ? part.input : nullptr;
      whole.output = shape.output != 0 ? part.output : nullptr;
    }
    const auto follows = [before](const void* first, const void* next) {
      return first == nullptr || static_cast<const std::byte*>(first) + before == next;
    };
    if (!follows(whole.input, part.input) || !follows(whole.output, part.output)) return false;
    before += part.count * size_of(request.call.type);
  }
  const auto [input, output] = buffers_of(whole, rank, size);
  if (overlap(input, output) && whole.input != whole.output) return false;
  request = whole;
  return true;
}

}  // namespace

std::unique_ptr<LocalSteps> LocalSteps::prepare(Request& request, Rank rank, Rank size,
                                                ScratchPool& pool) {
  const Extras* const extras = request.extras;
  if (extras == nullptr || (!extras->parts && !extras->factor)) return nullptr;
  const bool packs = extras->parts && !lie_in_one_piece(request, rank, size);
  if (!packs && !extras->factor) return nullptr;
  auto steps = std::make_unique<LocalSteps>();
  if (packs) steps->packed_.emplace(request, rank, size, pool);
  if (extras->factor) steps->scaled_.emplace(request, rank, size, pool);
  return steps;
}

}  // namespace coll
