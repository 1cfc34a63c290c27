// SPDX-License-Identifier: Apache-2.0
// Reading IDX files: a magic number that says bytes and the number of dimensions, the dimensions
// (big endian), the bytes.
#include "fashion_mnist_data.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fashion {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // more than any file of this kind holds

/// The body of an IDX file of bytes with `dimensions` dimensions, whose sizes go to `sizes`.
std::string read_idx(const std::string& path, std::size_t dimensions,
                     std::vector<std::size_t>& sizes, std::vector<std::uint8_t>& body) {
  errno = 0;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return path + " cannot be read: " + std::strerror(errno) +
           "; Debian's package dataset-fashion-mnist has it (apt-get install "
           "dataset-fashion-mnist), or name its folder with --data";
  std::vector<std::uint8_t> head(4 + 4 * dimensions);
  std::string trouble;
  std::size_t total = 1;
  if (gzread(file, head.data(), static_cast<unsigned>(head.size())) !=
          static_cast<int>(head.size()) ||
      head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != dimensions) {
    trouble =
        path + " is not an IDX file of bytes with " + std::to_string(dimensions) + " dimensions";
  } else {
    for (std::size_t d = 0; d < dimensions; ++d) {
      std::size_t size = 0;
      for (std::size_t i = 0; i < 4; ++i) size = size << 8 | head[4 + 4 * d + i];
      sizes.push_back(size);
      total = std::min(total * size, kMostBytes + 1);
    }
    if (total > kMostBytes) {
      trouble = path + " says it has more than " + std::to_string(kMostBytes) + " bytes";
    } else {
      body.resize(total);
      if (gzread(file, body.data(), static_cast<unsigned>(total)) != static_cast<int>(total))
        trouble = path + " ends before its " + std::to_string(total) + " bytes, or is damaged";
    }
  }
  gzclose(file);
  return trouble;
}

}  // namespace

std::string read_images(const std::string& folder, const std::string& part, Images& images) {
  std::vector<std::size_t> image_sizes, label_sizes;
  const std::string stem = folder + "/" + part;
  if (auto trouble = read_idx(stem + "-images-idx3-ubyte.gz", 3, image_sizes, images.pixels);
      !trouble.empty())
    return trouble;
  if (auto trouble = read_idx(stem + "-labels-idx1-ubyte.gz", 1, label_sizes, images.labels);
      !trouble.empty())
    return trouble;
  if (image_sizes[1] * image_sizes[2] != kPixels || image_sizes[0] != label_sizes[0])
    return stem + "-*: expected as many 28 x 28 images as labels, found " +
           std::to_string(image_sizes[0]) + " of " + std::to_string(image_sizes[1]) + " x " +
           std::to_string(image_sizes[2]) + " and " + std::to_string(label_sizes[0]) + " labels";
  if (std::any_of(images.labels.begin(), images.labels.end(),
                  [](std::uint8_t label) { return label >= kClasses; }))
    return stem + "-labels-idx1-ubyte.gz has a label above 9";
  return {};
}

}  // namespace fashion
