// SPDX-License-Identifier: Apache-2.0
// Writes weights as one file of the safetensors format, which PyTorch and others read.
//
//   length of the header     u64, little-endian
//   header                   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//                            [0, 24]}, …}; spaces up to a multiple of 8 bytes
//   data                     tensors in the order of their offsets, without gaps
//
// (github.com/huggingface/safetensors, "Format".) The writer holds one block of values at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "../checkpoint/checkpoint_reader.hpp"

namespace training {

class SafetensorsWriter {
 public:
  /// Begins the file, under another name until it is complete. `format` is f32 or bf16.
  SafetensorsWriter(std::filesystem::path path, const std::vector<WholeParameter>& parameters,
                    Format format);
  /// The next values: parameter after parameter, in the order of the constructor's list.
  void write(std::span<const float> values);
  /// Brings the file to the disk and gives it its name. Throws Failure if values are missing.
  void finish();

 private:
  std::filesystem::path path_, unfinished_;
  Format format_;
  StoredFile file_;
  std::uint64_t at_ = 0, end_ = 0;  ///< bytes
  std::vector<std::byte> narrowed_;
};

/// All weights of a checkpoint.
void export_safetensors(CheckpointReader& reader, const std::filesystem::path& path, Format format);

}  // namespace training
