// SPDX-License-Identifier: Apache-2.0
// One rank's file of a checkpoint: a head, which says what the file holds, and the data.
//
//   head    magic "COLLCKPT", version, rank, ranks, step, lengths     64 bytes
//           names of parameters: length (u32) and text, each
//           pieces: first (u64), count (u64), name's number (u32), state (u32), each
//           SHA-256 of each block of data
//           zeros up to a multiple of 4096 bytes
//   data    the pieces' elements as f32, one piece behind another; blocks of 1 MiB, the last
//   shorter
//
// All numbers are little-endian. The manifest holds the SHA-256 of the head, the head those of the
// blocks: no bit of the file can change unseen, and one block can be read and checked alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "piece.hpp"
#include "sha256.hpp"
#include "stored_file.hpp"

namespace training {

inline constexpr std::size_t kBlockBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kBlockElements = kBlockBytes / sizeof(float);

struct ShardHead {
  std::size_t rank = 0, ranks = 1;
  std::uint64_t step = 0;
  std::vector<Piece> pieces = {};
  std::vector<Digest> blocks = {};

  [[nodiscard]] std::size_t elements() const {
    std::size_t elements = 0;
    for (const Piece& piece : pieces) elements += piece.count;
    return elements;
  }
};

/// The head as bytes; the data begin behind them.
std::vector<std::byte> encode(const ShardHead& head);

/// Writes the file and waits until it is on the disk. `head` has no blocks yet: `values` give them.
void write_shard(const std::filesystem::path& path, ShardHead head, std::span<const float> values);

/// A file of which the head is read. Every read checks what it reads and throws Damaged, with file
/// and block.
class ShardFile {
 public:
  explicit ShardFile(const std::filesystem::path& path);
  [[nodiscard]] const ShardHead& head() const { return head_; }
  [[nodiscard]] const Digest& digest() const { return digest_; }  ///< of the head's bytes
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }    ///< of the file
  /// One block's elements; valid until the next call.
  std::span<const float> block(std::size_t number);

 private:
  std::filesystem::path path_;
  ShardHead head_;
  Digest digest_{};
  std::uint64_t data_begin_ = 0, bytes_ = 0;
  std::size_t elements_ = 0;
  std::vector<float> block_;                           ///< the last that was read
  std::size_t number_ = static_cast<std::size_t>(-1);  ///< its number
};

}  // namespace training
