// SPDX-License-Identifier: Apache-2.0
// States in a file, in chunks: a chunk holds the same elements of each array, one array behind
// another, so that one read and one write move all that a step needs of these elements. An array's
// part of a chunk is padded to pages.
#pragma once
#include <span>
#include <vector>

#include "../optimizer/optimizer.hpp"
#include "state_io.hpp"

namespace training {

class StateStore {
 public:
  /// Elements of the owned part of a bucket.
  struct Chunk {
    std::size_t bucket = 0;
    Range elements;          ///< from the part's begin
    std::size_t offset = 0;  ///< in the file
    std::size_t stride = 0;  ///< bytes from array to array
  };
  struct Options {
    std::string folder, means;
    std::size_t chunk_bytes = 0;  ///< of each array: a multiple of kPage
    bool direct = true;
  };

  /// All states are 0. `buffer` has room for a chunk of all arrays; read() and write() use it.
  StateStore(const FlatLayout& layout, Shard shard, bool keeps_weights, const Options& options,
             std::span<std::byte> buffer);

  [[nodiscard]] std::size_t arrays() const { return arrays_; }
  [[nodiscard]] std::span<const Chunk> chunks(std::size_t bucket) const {
    return std::span(chunks_).subspan(begins_[bucket], begins_[bucket + 1] - begins_[bucket]);
  }
  [[nodiscard]] Transfer transfer(const Chunk& chunk, std::byte* data, bool write) const {
    return {write, data, chunk.stride * arrays_, chunk.offset};
  }
  /// Where an array is in a chunk's memory.
  [[nodiscard]] static float* array(const Chunk& chunk, std::byte* data, State state);

  [[nodiscard]] StateIo& io() { return io_; }

  /// Elements `first` … of the owned part of a bucket; no other transfer goes on.
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to);
  void write(std::size_t bucket, State state, std::size_t first, std::span<const float> from);

 private:
  template <class Visit>
  void for_each_piece(std::size_t bucket, State state, std::size_t first, std::size_t count,
                      Visit visit);
  void move(bool write, std::size_t offset, std::size_t bytes);

  std::size_t arrays_;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> begins_;  ///< of buckets, in chunks; and the end
  std::span<std::byte> buffer_;
  StateFile file_;
  StateIo io_;
};

}  // namespace training
