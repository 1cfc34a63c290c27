// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself with a call's buffers.
#include "communicator/calls/local_steps.hpp"

#include <algorithm>

#include "sys/cuda/cuda_driver.hpp"
#include "sys/memory/memory_places.hpp"

namespace coll {
namespace {

/// GPUs copy no more than one allocation at a time, and neighbours may be two.
bool any_on_device(const CallParts& parts) {
  return found_cuda_driver() != nullptr &&
         std::ranges::any_of(parts.list, [](const CallPart& part) {
           const auto on_device = [&part](const void* data) {
             return part.count != 0 && data != nullptr &&
                    place_of_memory(data).kind == MemoryKind::device;
           };
           return on_device(part.input) || on_device(part.output);
         });
}

/// If the parts' buffers lie one behind another, points the request at the whole: then it is an
/// ordinary call.
bool lie_in_one_piece(Request& request, Rank rank, Rank size, bool on_host) {
  const BlockShape shape = block_shape(request.call.collective, size, request.call.root, rank);
  if (shape.input > 1 || shape.output > 1) return false;
  if (!on_host && any_on_device(*request.extras->parts)) return false;
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

Result<std::unique_ptr<LocalSteps>> LocalSteps::prepare(Request& request, Rank rank, Rank size,
                                                        ScratchPool& pool, bool on_host,
                                                        StreamDevice* gpu) {
  const Extras* const extras = request.extras;
  const bool packs =
      extras != nullptr && extras->parts && !lie_in_one_piece(request, rank, size, on_host);
  const bool scales = extras != nullptr && extras->factor;
  // The processor multiplies, whoever moves the products.
  const bool copies =
      !packs && !on_host && (gpu == nullptr || scales) && DeviceBuffers::any(request, rank, size);
  const bool others = packs || copies || scales;
  const auto places = [&] {
    return gpu != nullptr && PlacedBuffers::any(request, rank, size, *gpu);
  };
  if (!others && !places()) return std::unique_ptr<LocalSteps>();
  auto steps = std::make_unique<LocalSteps>();
  steps->rank_ = rank;
  if (packs) steps->packed_.emplace(request, rank, size, pool, on_host);
  if (copies) steps->device_.emplace(request, rank, size, pool);
  if (scales) steps->scaled_.emplace(request, rank, size, pool);
  if (!others || places()) {  // where the request points now
    Result<PlacedBuffers> placed = PlacedBuffers::place(request, rank, size, pool, *gpu);
    if (!placed.ok()) return said_by(rank, placed.status());
    steps->placed_ = *std::move(placed);
  }
  return steps;
}

Status said_by(Rank rank, const Status& failure) {
  return failure.with_context("rank " + std::to_string(rank)).at_rank(rank);
}

template <class Work>
Status LocalSteps::on_this_rank(Work work) const noexcept {
  return caught([&]() -> Status {
    const Status done = work();
    return done.ok() ? done : said_by(rank_, done);
  });
}

Status LocalSteps::before() const noexcept {
  return on_this_rank([this]() -> Status {
    if (packed_) COLL_TRY(packed_->pack());
    if (device_) COLL_TRY(device_->fetch());
    if (scaled_) scaled_->compute();
    return placed_ ? placed_->fetch() : Status();
  });
}

Status LocalSteps::after() const noexcept {
  return on_this_rank([this]() -> Status {
    if (placed_) COLL_TRY(placed_->store());
    if (packed_) COLL_TRY(packed_->unpack());
    if (device_) COLL_TRY(device_->store());
    return {};
  });
}

}  // namespace coll
