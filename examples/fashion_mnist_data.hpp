// SPDX-License-Identifier: Apache-2.0
// The images and labels of Fashion-MNIST, read from the gzipped IDX files of Debian's package.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fashion {

constexpr std::size_t kPixels = 28 * 28;
constexpr std::size_t kClasses = 10;

struct Images {
  std::vector<std::uint8_t> pixels;  ///< kPixels of each, 0 is background
  std::vector<std::uint8_t> labels;  ///< below kClasses
  [[nodiscard]] std::size_t size() const { return labels.size(); }
};

/// Reads `part` ("train" or "t10k") from `folder`; "" or what is wrong with the files.
std::string read_images(const std::string& folder, const std::string& part, Images& images);

}  // namespace fashion
