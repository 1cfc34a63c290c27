// SPDX-License-Identifier: Apache-2.0
// Images: each once in an epoch, and files that are not what they should be.
#include "data/image_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <numeric>

#include "micro_batches.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training {
namespace image_source_test {

using testing::HasSubstr;

constexpr std::size_t kTraining = 37, kValidation = 11, kSequences = 8;
const Draw kDraw{.seed = 5, .sequences = kSequences, .tokens = 1};

void write_packed(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr) << path;
  EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  gzclose(file);
}

/// A folder of small sets: image i has 2 x 3 pixels, the first of them i, and class i % 10.
class ImageFolder {
 public:
  ImageFolder() {
    write("train", kTraining, 0);
    write("t10k", kValidation, 100);
  }
  [[nodiscard]] const std::string& path() const { return folder_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return path() + "/" + name; }

 private:
  void write(const std::string& part, std::size_t count, std::size_t first) {
    const auto byte = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
    std::vector<std::uint8_t> images = {0, 0, 8, 3, 0, 0, 0, byte(count), 0, 0, 0, 2, 0, 0, 0, 3};
    std::vector<std::uint8_t> labels = {0, 0, 8, 1, 0, 0, 0, byte(count)};
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t pixel = 0; pixel < 6; ++pixel) images.push_back(byte(first + i + pixel));
      labels.push_back(byte(i % 10));
    }
    write_packed(file(part + "-images-idx3-ubyte.gz"), images);
    write_packed(file(part + "-labels-idx1-ubyte.gz"), labels);
  }

  coll::test::TemporaryFolder folder_;
};

/// The first pixels of a batch's images. Checks the others, the classes, and that a short batch is
/// padded.
std::vector<std::int32_t> images_of(const MicroBatch& batch, std::int32_t first) {
  std::vector<std::int32_t> images;
  for (std::size_t s = 0; s < kSequences; ++s) {
    const std::int32_t* pixels = batch.inputs.data() + s * 6;
    if (batch.targets[s] < 0) {
      EXPECT_EQ(std::count(pixels, pixels + 6, 0), 6);
      continue;
    }
    for (std::int32_t i = 0; i < 6; ++i) EXPECT_EQ(pixels[i], pixels[0] + i);
    EXPECT_EQ(batch.targets[s], (pixels[0] - first) % 10);
    images.push_back(pixels[0]);
  }
  return images;
}

TEST(ImageSource, HasEachImageOnceInAnEpochAndOnceInValidation) {
  const ImageFolder folder;
  const auto source = image_source(folder.path(), kDraw);
  EXPECT_EQ(source->shape().pixels, 6U);
  EXPECT_EQ(source->shape().kinds, 10U);
  ASSERT_EQ(source->epoch(), 5U);
  std::vector<std::vector<std::int32_t>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> seen;
    for (std::uint64_t i = 0; i < 5; ++i) {
      const auto images = images_of(training_batch(*source, epoch * 5 + i), 0);
      EXPECT_EQ(images.size(), i == 4 ? kTraining % kSequences : kSequences);
      EXPECT_EQ(images.size(), source->rows(epoch * 5 + i));
      seen.insert(seen.end(), images.begin(), images.end());
    }
    epochs.push_back(seen);
    std::ranges::sort(seen);
    std::vector<std::int32_t> all(kTraining);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);

  std::vector<std::int32_t> seen;
  for (std::uint64_t number = 0; number < source->validations(); ++number) {
    const auto images = images_of(validation_batch(*source, number), 100);
    seen.insert(seen.end(), images.begin(), images.end());
  }
  std::ranges::sort(seen);
  std::vector<std::int32_t> all(kValidation);
  std::iota(all.begin(), all.end(), 100);
  EXPECT_EQ(seen, all);
}

TEST(ImageSource, KeepsItsPromises) {
  const ImageFolder folder;
  expect_promises("fashion-mnist:" + folder.path(),
                  {.seed = coll::test::test_seed(), .sequences = kSequences, .tokens = 64}, 256);
}

TEST(ImageSource, RefusesFilesThatAreNoImages) {
  const auto failure = [](const std::string& name, const std::vector<std::uint8_t>& bytes) {
    const ImageFolder folder;
    write_packed(folder.file(name), bytes);
    return failure_of([&] { image_source(folder.path(), kDraw); });
  };
  const std::string images = "t10k-images-idx3-ubyte.gz", labels = "t10k-labels-idx1-ubyte.gz";
  EXPECT_THAT(failure(images, {0, 0, 8, 1, 0, 0, 0, 0}), HasSubstr("is not an IDX file"));
  EXPECT_THAT(failure(images, {0, 0}), HasSubstr("is not an IDX file"));
  EXPECT_THAT(failure(images, {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 9, 9}),
              HasSubstr("ends before its 6 bytes"));
  EXPECT_THAT(failure(images, {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 1, 0, 0, 0, 1}),
              HasSubstr("says it has more than"));
  EXPECT_THAT(failure(images, {0, 0, 8, 3, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 4}),
              HasSubstr("says it has more than"))
      << "2^64 bytes";
  EXPECT_THAT(failure(images, {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 9}),
              HasSubstr("no training data"));
  EXPECT_THAT(failure(labels, {0, 0, 8, 1, 0, 0, 0, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
              HasSubstr("class above 9"));
}

TEST(ImageSource, SaysWhatToInstallWhereThereIsNothing) {
  const coll::test::TemporaryFolder folder;
  EXPECT_THAT(failure_of([&] { image_source(folder.path(), kDraw); }),
              HasSubstr("apt-get install dataset-fashion-mnist"));
}

TEST(ImageSource, OfFashionMnistHasTheKnownSize) {
  if (!std::filesystem::exists(kFashionMnist))
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  const auto source = open_source("fashion-mnist", {.seed = 1, .sequences = 128, .tokens = 1});
  EXPECT_EQ(source->shape().pixels, 784U);
  EXPECT_EQ(source->epoch(), 469U);
  EXPECT_EQ(source->rows(468), 60000U % 128);
  EXPECT_EQ(source->validations(), 79U);
  std::vector<std::size_t> classes(10);
  for (std::uint64_t number = 0; number < 79; ++number) {
    for (const std::int32_t target : validation_batch(*source, number).targets)
      if (target >= 0) ++classes[static_cast<std::size_t>(target)];
  }
  EXPECT_EQ(classes, std::vector<std::size_t>(10, 1000));
}

}  // namespace image_source_test
}  // namespace training
