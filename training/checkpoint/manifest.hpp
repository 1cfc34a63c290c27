// SPDX-License-Identifier: Apache-2.0
// A checkpoint's manifest.json: which files belong to it, what model it is of, and the trainer's
// own state. It begins with the SHA-256 of all that follows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "piece.hpp"

namespace training {

inline constexpr const char* kManifestName = "manifest.json";

/// A rank's file.
struct ShardEntry {
  std::uint64_t bytes = 0;
  std::string head;  ///< SHA-256 of its head, in hex
};

struct Manifest {
  std::uint64_t step = 0;
  std::vector<ShardEntry> shards = {};  ///< of each rank that wrote
  std::vector<WholeParameter> parameters = {};
  std::string trainer = "{}";  ///< JSON of the trainer: position in the data, loss scale and so on
};

/// The name of a rank's file.
std::string shard_name(std::size_t rank);

std::string encode(const Manifest& manifest);
/// Throws Damaged if a bit of it changed, Failure if another version of this program wrote it.
Manifest decode_manifest(const std::string& text, const std::filesystem::path& path);

}  // namespace training
