// SPDX-License-Identifier: Apache-2.0
// Files of the safetensors format, against a parser that shares nothing with the writer.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "checkpoint_samples.hpp"
#include "safetensors/safetensors_reader.hpp"
#include "safetensors/safetensors_writer.hpp"
#include "temporary_folder.hpp"

namespace training::test {
namespace safetensors_test {

namespace fs = std::filesystem;

/// A tensor as the format's description says it is stored.
struct Tensor {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::string bytes;
};

std::map<std::string, Tensor> parse(const fs::path& path) {
  const std::string file = read_text(path);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8U | static_cast<unsigned char>(file.at(static_cast<std::size_t>(i)));
  EXPECT_EQ(length % 8, 0U) << "the data are aligned";
  EXPECT_EQ(file.at(8), '{');
  const auto header = nlohmann::json::parse(file.substr(8, length));
  const std::string data = file.substr(8 + length);
  EXPECT_EQ(header.at("__metadata__").at("format"), "pt");
  std::map<std::string, Tensor> tensors;
  std::set<std::pair<std::size_t, std::size_t>> places;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry.at("data_offsets").at(0), end = entry.at("data_offsets").at(1);
    places.emplace(begin, end);
    tensors[name] = {entry.at("dtype"), entry.at("shape"), data.substr(begin, end - begin)};
  }
  std::size_t at = 0;
  for (const auto& [begin, end] : places) {
    EXPECT_EQ(begin, at) << "there are no gaps";
    at = end;
  }
  EXPECT_EQ(at, data.size());
  return tensors;
}

class Safetensors : public ::testing::Test {
 protected:
  /// A file with this header and so many bytes of zeros behind it.
  void write_raw(const std::string& header, std::size_t data) const {
    std::ofstream file(path_, std::ios::binary);
    const std::uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header << std::string(data, '\0');
  }
  coll::test::TemporaryFolder folder_;
  fs::path path_ = fs::path(folder_.path()) / "weights.safetensors";
  Sample sample_{.folder = folder_.path(),
                 .parameters = {{"block0.w", 3, 100'001}, {"block0.b", 1, 7}, {"a", 2, 2}}};
};

TEST_F(Safetensors, ExportsAllWeights) {
  sample_.write(7);
  LatestCheckpoint latest = open_latest(folder_.path());
  export_safetensors(*latest.reader, path_, Format::f32);
  const auto tensors = parse(path_);
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors.at("block0.w").shape, (std::vector<std::size_t>{3, 100'001}));
  EXPECT_EQ(tensors.at("block0.b").shape, std::vector<std::size_t>{7});
  for (const WholeParameter& parameter : sample_.parameters) {
    const Tensor& tensor = tensors.at(parameter.name);
    EXPECT_EQ(tensor.dtype, "F32");
    ASSERT_EQ(tensor.bytes.size(), 4 * parameter.size());
    const Values values(7, State::weights, parameter.name);
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      float value = 0;
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
      ASSERT_EQ(value, values(i)) << parameter.name << " " << i;
    }
  }
  EXPECT_FALSE(fs::exists(path_.string() + ".tmp"));
}

TEST_F(Safetensors, Bf16IsRounded) {
  SafetensorsWriter writer(path_, {{"x", 1, 3}}, Format::bf16);
  writer.write(std::vector<float>{1.0F, -2.5F, 1.01171875F});  // The last is a tie: to even.
  writer.finish();
  const Tensor tensor = parse(path_).at("x");
  EXPECT_EQ(tensor.dtype, "BF16");
  EXPECT_EQ(tensor.bytes, std::string("\x80\x3f\x20\xc0\x82\x3f", 6));
}

TEST_F(Safetensors, ReadsWhatItWrote) {
  sample_.write(7);
  LatestCheckpoint latest = open_latest(folder_.path());
  for (const Format format : {Format::f32, Format::bf16}) {
    export_safetensors(*latest.reader, path_, format);
    const SafetensorsReader reader(path_);
    reader.check(sample_.parameters);
    std::vector<float> read(5);
    reader.read("block0.w", 299'990, read);
    for (std::size_t i = 0; i < read.size(); ++i) {
      const float value = Values(7, State::weights, "block0.w")(299'990 + i);
      EXPECT_NEAR(read[i], value, format == Format::f32 ? 0 : value / 256);
    }
  }
}

TEST_F(Safetensors, ReadsAFileThatAnotherProgramLaidOut) {
  // Out of order, without metadata, an f16 in it, and a vector as a matrix of one column.
  write_raw(R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},)"
            R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})",
            12);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write("\x00\x3c\x00\xc0", 4);
  file.close();
  const SafetensorsReader reader(path_);
  reader.check({{"a", 1, 2}, {"b", 1, 2}});
  std::vector<float> read(2);
  reader.read("b", 0, read);
  EXPECT_EQ(read, (std::vector<float>{1, -2}));
}

TEST_F(Safetensors, AnotherModelsFileIsRefused) {
  SafetensorsWriter writer(path_, {{"w", 2, 3}, {"more", 1, 1}}, Format::f32);
  writer.write(std::vector<float>(7));
  writer.finish();
  const SafetensorsReader reader(path_);
  const std::string text = failure_of([&] { reader.check({{"w", 3, 2}, {"b", 1, 4}}); });
  for (const char* words :
       {"w has shape [2, 3], the model's has [3, 2]", "b is missing", "The model lacks 1 tensors"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  std::vector<float> read(2);
  failure_of([&] { reader.read("absent", 0, read); });
  failure_of([&] { reader.read("w", 5, read); });
  failure_of([&] { reader.read("w", static_cast<std::size_t>(-1), read); });
}

TEST_F(Safetensors, WhatIsNoSuchFileIsRefused) {
  const std::string entry = R"({"x":{"dtype":"F32","shape":)";
  for (const std::string& header :
       {std::string("no JSON"), std::string("[]x"), std::string(R"({"x":1})"),
        entry + R"([2],"data_offsets":[0,12]}})", entry + R"([3],"data_offsets":[4,16]}})",
        entry + R"([3],"data_offsets":[12,0]}})", entry + R"([-1],"data_offsets":[0,12]}})",
        entry + R"([4294967296,4294967296,3],"data_offsets":[0,12]}})",
        std::string(R"({"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})")}) {
    write_raw(header, 12);
    const std::string text = failure_of([&] { const SafetensorsReader reader(path_); });
    EXPECT_NE(text.find(path_.string()), std::string::npos) << header << ": " << text;
  }
  for (const std::size_t size : {0U, 7U, 8U}) {
    std::ofstream(path_, std::ios::binary) << std::string(size, '\xff');
    failure_of([&] { const SafetensorsReader reader(path_); });
  }
}

TEST_F(Safetensors, AnUnfinishedExportIsNoFile) {
  SafetensorsWriter writer(path_, {{"w", 2, 3}}, Format::f32);
  writer.write(std::vector<float>(5));
  failure_of([&] { writer.finish(); });
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Safetensors, MoreThanFourGibibytes) {
  const std::size_t size = std::size_t{5} << 28U;
  write_raw(R"({"w":{"dtype":"F32","shape":[5,268435456],"data_offsets":[0,5368709120]}})", 0);
  fs::resize_file(path_, fs::file_size(path_) + 4 * size);  // A hole.
  const float last = 7.5F;
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write(reinterpret_cast<const char*>(&last), 4);
  file.close();
  std::vector<float> read(2);
  SafetensorsReader(path_).read("w", size - 2, read);
  EXPECT_EQ(read, (std::vector<float>{0, last}));
}

}  // namespace safetensors_test
}  // namespace training::test
