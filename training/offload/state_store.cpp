// SPDX-License-Identifier: Apache-2.0
// Lays out chunks, and reads and writes pieces of them for checkpoints.
#include "state_store.hpp"

namespace training {
namespace {

std::size_t pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/// The moments come first: all stores have them.
std::size_t index(State state) {
  return state == State::first_moment ? 0 : (state == State::second_moment ? 1 : 2);
}

std::vector<StateStore::Chunk> chunks_of(const FlatLayout& layout, Shard shard, std::size_t arrays,
                                         std::size_t chunk_bytes) {
  const std::size_t most = chunk_bytes / sizeof(float);
  std::vector<StateStore::Chunk> chunks;
  std::size_t offset = 0;
  for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    const std::size_t count = shard.of(layout.buckets()[bucket]).count;
    for (std::size_t first = 0; first < count; first += most) {
      const Range elements{first, std::min(most, count - first)};
      const std::size_t stride = pages(elements.count * sizeof(float));
      chunks.push_back({bucket, elements, offset, stride});
      offset += stride * arrays;
    }
  }
  return chunks;
}

std::size_t bytes_of_all(std::span<const StateStore::Chunk> chunks, std::size_t arrays) {
  return chunks.empty() ? 0 : chunks.back().offset + chunks.back().stride * arrays;
}

}  // namespace

StateStore::StateStore(const FlatLayout& layout, Shard shard, bool keeps_weights,
                       const Options& options, std::span<std::byte> buffer)
    : arrays_(keeps_weights ? 3 : 2),
      chunks_(chunks_of(layout, shard, arrays_, options.chunk_bytes)),
      buffer_(buffer),
      file_(options.folder, shard.rank, bytes_of_all(chunks_, arrays_), options.direct),
      io_(file_, options.means) {
  std::size_t chunk = 0;
  for (std::size_t bucket = 0; bucket <= layout.buckets().size(); ++bucket) {
    while (chunk < chunks_.size() && chunks_[chunk].bucket < bucket) ++chunk;
    begins_.push_back(chunk);
  }
}

float* StateStore::array(const Chunk& chunk, std::byte* data, State state) {
  return reinterpret_cast<float*>(data + chunk.stride * index(state));
}

/// Calls visit(offset, bytes, skip, from, count) for each chunk that has some of the elements:
/// `bytes` of pages at `offset` of the file hold them, from element `skip` on; they are `count`,
/// from number `from` of those asked for.
template <class Visit>
void StateStore::for_each_piece(std::size_t bucket, State state, std::size_t first,
                                std::size_t count, Visit visit) {
  for (const Chunk& chunk : chunks(bucket)) {
    const std::size_t begin = std::max(first, chunk.elements.begin);
    const std::size_t end = std::min(first + count, chunk.elements.end());
    if (begin >= end) continue;
    const std::size_t inside = (begin - chunk.elements.begin) * sizeof(float);
    const std::size_t page = inside / kPage * kPage;
    const std::size_t bytes = pages(inside + (end - begin) * sizeof(float)) - page;
    visit(chunk.offset + chunk.stride * index(state) + page, bytes, (inside - page) / sizeof(float),
          begin - first, end - begin);
  }
}

void StateStore::move(bool write, std::size_t offset, std::size_t bytes) {
  io_.start(0, {write, buffer_.data(), bytes, offset});
  io_.wait(0);
}

void StateStore::read(std::size_t bucket, State state, std::size_t first, std::span<float> to) {
  for_each_piece(bucket, state, first, to.size(),
                 [&](std::size_t offset, std::size_t bytes, std::size_t skip, std::size_t from,
                     std::size_t count) {
                   move(false, offset, bytes);
                   const float* found = reinterpret_cast<const float*>(buffer_.data()) + skip;
                   std::copy_n(found, count, to.data() + from);
                 });
}

void StateStore::write(std::size_t bucket, State state, std::size_t first,
                       std::span<const float> from) {
  for_each_piece(bucket, state, first, from.size(),
                 [&](std::size_t offset, std::size_t bytes, std::size_t skip, std::size_t at,
                     std::size_t count) {
                   move(false, offset, bytes);  // what else is in the pages stays
                   std::copy_n(from.data() + at, count,
                               reinterpret_cast<float*>(buffer_.data()) + skip);
                   move(true, offset, bytes);
                 });
}

}  // namespace training
