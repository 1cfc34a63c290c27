// SPDX-License-Identifier: Apache-2.0
// Buffers of a call that a GPU moves and that do not lie on it.
#include "communicator/calls/placed_buffers.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"
#include "sys/cuda/device_memory.hpp"

namespace coll {
namespace {

/// Memory of pools and of mapped allocations belongs to no context. That of another context than
/// the kernels' is not theirs to read.
bool is_of_other_context(const Buffer& buffer, const StreamDevice& gpu) {
  constexpr int kContext = 1;  // CUpointer_attribute
  CudaContext context = nullptr;
  void* values[] = {&context};
  const bool known = gpu.driver().pointer_attributes(1, &kContext, values, buffer.begin) == 0;
  return known && context != nullptr && context != gpu.context();
}

bool lies_elsewhere(const Buffer& buffer, const StreamDevice& gpu) {
  if (buffer.bytes == 0) return false;
  return device_of(buffer) != gpu.ordinal() || is_of_other_context(buffer, gpu);
}

CudaAddress address_of(const std::byte* place) {
  return reinterpret_cast<std::uintptr_t>(place);
}

}  // namespace

bool PlacedBuffers::any(const Request& request, Rank rank, Rank size, const StreamDevice& gpu) {
  if (request.call.is_pair()) return false;  // copied from and to wherever they lie
  const auto [input, output] = buffers_of(request, rank, size);
  return lies_elsewhere(input, gpu) || lies_elsewhere(output, gpu);
}

PlacedBuffers::PlacedBuffers(const Request& request, Rank rank, Rank size, StreamDevice& gpu)
    : given_(request),
      buffers_(buffers_of(request, rank, size)),
      pair_(stage(buffers_, lies_elsewhere(buffers_.input, gpu),
                  lies_elsewhere(buffers_.output, gpu))),
      gpu_(&gpu) {}

Status PlacedBuffers::take(ScratchPool& pool) {
  Status failure;
  const auto make = [&](const ScratchPool::Memory& /*none*/, std::size_t all) {
    Result<CudaPiece> piece = CudaPiece::allocate(gpu_->context(), all);
    if (!piece.ok()) {
      failure =
          piece.status().with_context("memory of CUDA device " + std::to_string(gpu_->ordinal()) +
                                      " for a call's buffers that lie elsewhere");
      throw std::bad_alloc();
    }
    auto* const begin = reinterpret_cast<std::byte*>(piece->address());
    auto owner = std::make_shared<CudaPiece>(*std::move(piece));
    return ScratchPool::Memory(begin, [owner](std::byte*) mutable { owner.reset(); });
  };
  try {
    block_ = pool.take(pair_.bytes, ScratchUse::gpu, make);
  } catch (const std::bad_alloc&) {
    if (failure.ok()) throw;
  }
  return failure;
}

Status PlacedBuffers::reserve(const Request& request, Rank rank, Rank size, ScratchPool& pool,
                              StreamDevice& gpu) {
  PlacedBuffers made(request, rank, size, gpu);
  return made.pair_.bytes == 0 ? Status() : made.take(pool);
}

Result<PlacedBuffers> PlacedBuffers::place(Request& request, Rank rank, Rank size,
                                           ScratchPool& pool, StreamDevice& gpu) {
  PlacedBuffers made(request, rank, size, gpu);
  COLL_TRY(made.take(pool));
  std::byte* const block = made.block_.data();
  const auto& [input, output] = made.buffers_;
  if (made.pair_.has_input()) request.input = moved(request.input, input, block + made.pair_.input);
  if (made.pair_.has_output())
    request.output = moved(request.output, output, block + made.pair_.output);
  return made;
}

template <class Copies>
Status PlacedBuffers::copy(Copies copies) const {
  const CudaDriver& driver = gpu_->driver();
  const CurrentContext current(driver, gpu_->context());
  if (current.error() != 0) return gpu_->failed_to("its context", current.error());
  int error = 0;
  copies([&](const std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (error == 0 && bytes != 0)
      error = driver.copy_async(address_of(to), address_of(from), bytes, gpu_->copy_stream());
  });
  const BesideCaptures beside(driver);
  const int waited = driver.stream_synchronize(gpu_->copy_stream());
  if (error == 0) error = waited;
  return error == 0 ? Status() : gpu_->failed_to("copies of a call's buffers", error);
}

Status PlacedBuffers::fetch() const {
  if (!pair_.has_input()) return {};
  const auto* const from = reinterpret_cast<const std::byte*>(buffers_.input.begin);
  return copy([&](auto add) {
    for_each_run(given_, Space::input, buffers_.input, [&](std::uint64_t at, std::uint64_t bytes) {
      add(block_.data() + pair_.input + at, from + at, bytes);
    });
  });
}

Status PlacedBuffers::store() const {
  if (!pair_.has_output()) return {};
  const auto* const to = reinterpret_cast<const std::byte*>(buffers_.output.begin);
  return copy([&](auto add) {
    for_each_run(given_, Space::output, buffers_.output,
                 [&](std::uint64_t at, std::uint64_t bytes) {
                   add(to + at, block_.data() + pair_.output + at, bytes);
                 });
  });
}

}  // namespace coll
