// SPDX-License-Identifier: Apache-2.0
// Reading IDX files, packed with gzip or not: a magic number that says bytes and the number of
// dimensions, the dimensions (big endian), the bytes (LeCun, Cortes, Burges, "The MNIST database",
// file formats).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace training {

struct IdxFile {
  std::vector<std::size_t> sizes;  ///< of the dimensions
  std::vector<std::uint8_t> body;
};

/// Throws Failure if the file cannot be read, is damaged or has another number of dimensions.
IdxFile read_idx(const std::string& path, std::size_t dimensions);

}  // namespace training
