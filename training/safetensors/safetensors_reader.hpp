// SPDX-License-Identifier: Apache-2.0
// Reads weights from a file of the safetensors format, such as PyTorch writes: see
// safetensors_writer.hpp for the format.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../checkpoint/piece.hpp"
#include "../checkpoint/stored_file.hpp"
#include "../math/number_format.hpp"

namespace training {

class SafetensorsReader {
 public:
  /// Reads the header. Throws Failure if it is none, or if the data are cut.
  explicit SafetensorsReader(const std::filesystem::path& path);

  /// Throws Failure unless the file has these parameters, in their shapes, and no others.
  void check(const std::vector<WholeParameter>& parameters) const;
  /// Elements `first` and those behind it, as f32.
  void read(const std::string& parameter, std::size_t first, std::span<float> to) const;

 private:
  struct Tensor {
    Format format = Format::f32;
    std::vector<std::size_t> shape;
    std::size_t size = 1;
    std::uint64_t begin = 0;  ///< in the file
  };
  StoredFile file_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace training
