// SPDX-License-Identifier: Apache-2.0
// Images from IDX files.
#include "image_source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../memory/failure.hpp"
#include "example_source.hpp"
#include "idx_file.hpp"

namespace training {
namespace {

constexpr std::size_t kClasses = 10;

struct Images {
  std::size_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels, classes;
};

Images read_images(const std::string& stem) {
  IdxFile images = read_idx(stem + "-images-idx3-ubyte.gz", 3);
  IdxFile labels = read_idx(stem + "-labels-idx1-ubyte.gz", 1);
  Images all{images.sizes[0], images.sizes[1], images.sizes[2], std::move(images.body),
             std::move(labels.body)};
  if (all.count != all.classes.size() || all.pixels.empty())
    throw Failure(
        fmt::format("{}-*: {} images of {} x {} pixels and {} classes are no training data.", stem,
                    all.count, all.height, all.width, all.classes.size()));
  if (std::ranges::max(all.classes) >= kClasses)
    throw Failure(fmt::format("{}-labels-idx1-ubyte.gz has a class above 9.", stem));
  return all;
}

class ImageSource final : public ExampleSource {
 public:
  ImageSource(Images training, Images validation, const Draw& draw)
      : ExampleSource({.sequences = draw.sequences,
                       .pixels = training.height * training.width,
                       .kinds = kClasses},
                      draw.seed, training.count, validation.count),
        training_(std::move(training)),
        validation_(std::move(validation)) {}

  [[nodiscard]] std::string describe() const override {
    return fmt::format(
        "Fashion-MNIST: {} images of {} x {} pixels in {} classes, and {} for validation",
        training_.count, training_.height, training_.width, kClasses, validation_.count);
  }

 private:
  [[nodiscard]] std::size_t rows_of(std::size_t /*example*/) const override { return 1; }
  void put(std::size_t example, std::span<std::int32_t> inputs,
           std::span<std::int32_t> targets) const override {
    const bool trains = example < training_.count;
    const Images& images = trains ? training_ : validation_;
    const std::size_t i = trains ? example : example - training_.count;
    std::copy_n(images.pixels.data() + i * inputs.size(), inputs.size(), inputs.begin());
    targets[0] = images.classes[i];
  }

  Images training_, validation_;
};

}  // namespace

std::unique_ptr<Source> image_source(const std::string& folder, const Draw& draw) {
  Images training = read_images(folder + "/train"), validation = read_images(folder + "/t10k");
  if (training.height != validation.height || training.width != validation.width)
    throw Failure(fmt::format("{}: images for training and validation differ in size.", folder));
  return std::make_unique<ImageSource>(std::move(training), std::move(validation), draw);
}

}  // namespace training
