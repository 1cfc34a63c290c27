// SPDX-License-Identifier: Apache-2.0
// Where a call's buffers lie on a GPU, and what is copied for them.
#include "communicator/device/staged_call.hpp"

#include <utility>

namespace coll {
namespace {

Buffers buffers_of_part(const CallPart& part, const BlockShape& shape, std::size_t element) {
  const std::uint64_t block = part.count * element;
  return {{reinterpret_cast<std::uintptr_t>(part.input), block * shape.input},
          {reinterpret_cast<std::uintptr_t>(part.output), block * shape.output}};
}

}  // namespace

StagedCall::Pair StagedCall::add_pair(const Buffers& buffers, std::size_t& offset, bool stages) {
  constexpr std::size_t kAligned = 256;
  Pair pair{buffers,
            stage(buffers, stages && device_of(buffers.input) >= 0,
                  stages && device_of(buffers.output) >= 0),
            (offset + kAligned - 1) / kAligned * kAligned};
  if (pair.staged.bytes != 0) offset = pair.offset + pair.staged.bytes;
  pairs_.push_back(pair);
  return pair;
}

std::size_t StagedCall::plan(const Request& request, Rank rank, Rank size, std::size_t offset,
                             bool stages) {
  pairs_.clear();
  before_.clear();
  after_.clear();
  request_ = request;
  blocks_ = request.kept_blocks();
  extras_ = request.extras != nullptr ? *request.extras : Extras{};
  if (request.extras != nullptr) request_.extras = &extras_;
  const auto copy = [](std::vector<Copy>& to, const Buffer& buffer, std::size_t staged) {
    return [&to, &buffer, staged](std::uint64_t at, std::uint64_t bytes) {
      if (bytes != 0) to.push_back({buffer.begin + at, staged + at, bytes});
    };
  };
  const auto add = [&](const Buffers& buffers, auto for_each) {
    const Pair pair = add_pair(buffers, offset, stages);
    // The rest of a message's buffer comes back as it was.
    const bool whole = request.call.tagged() && request.call.collective == Collective::recv;
    if (pair.staged.has_input())
      for_each(Space::input, buffers.input,
               copy(before_, buffers.input, pair.offset + pair.staged.input));
    if (!pair.staged.has_output()) return;
    const std::size_t output = pair.offset + pair.staged.output;
    if (whole) for_each(Space::output, buffers.output, copy(before_, buffers.output, output));
    for_each(Space::output, buffers.output, copy(after_, buffers.output, output));
  };
  if (!extras_.parts) {
    add(buffers_of(request, rank, size), [&](Space space, const Buffer& buffer, auto visit) {
      for_each_run(request, space, buffer, visit);
    });
    return offset;
  }
  const BlockShape shape = block_shape(request.call.collective, size, request.call.root, rank);
  for (const CallPart& part : extras_.parts->list) {
    add(buffers_of_part(part, shape, size_of(request.call.type)),
        [](Space /*space*/, const Buffer& buffer, auto visit) {
          visit(std::uint64_t{0}, buffer.bytes);
        });
  }
  return offset;
}

const Request& StagedCall::place(std::byte* pinned) {
  const auto to = [pinned](const Pair& pair, std::size_t offset) {
    return pinned + pair.offset + offset;
  };
  if (!extras_.parts) {
    const Pair& pair = pairs_.front();
    if (pair.staged.has_input())
      request_.input = moved(request_.input, pair.buffers.input, to(pair, pair.staged.input));
    if (pair.staged.has_output())
      request_.output = moved(request_.output, pair.buffers.output, to(pair, pair.staged.output));
    return request_;
  }
  auto parts = std::make_shared<CallParts>(*extras_.parts);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    if (pair.staged.has_input()) parts->list[i].input = to(pair, pair.staged.input);
    if (pair.staged.has_output()) parts->list[i].output = to(pair, pair.staged.output);
  }
  extras_.parts = std::move(parts);
  return request_;
}

}  // namespace coll
