// SPDX-License-Identifier: Apache-2.0
// Parses the header, with all its bounds, and reads values.
#include "safetensors_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

namespace training {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // The format's own limit.

std::optional<Format> format_of(const std::string& dtype) {
  if (dtype == "F32") return Format::f32;
  if (dtype == "BF16") return Format::bf16;
  if (dtype == "F16") return Format::f16;
  return std::nullopt;
}

/// A shape without ones: a vector is the same as a matrix of one row or one column.
std::vector<std::size_t> essence(std::vector<std::size_t> shape) {
  std::erase(shape, 1U);
  return shape;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : file_(StoredFile::open(path)) {
  const auto fail = [&](const std::string& why) -> void {
    throw Failure(fmt::format("{} is no safetensors file: {}", path.string(), why));
  };
  const std::uint64_t bytes = file_.size();
  std::array<std::uint64_t, 1> length{};
  if (bytes < sizeof length) fail("it is too short");
  file_.read(0, std::as_writable_bytes(std::span(length)));
  if (length[0] > kLongestHeader || length[0] > bytes - sizeof length)
    fail(fmt::format("its header is to have {} bytes", length[0]));
  std::string header(length[0], ' ');
  file_.read(sizeof length, std::as_writable_bytes(std::span(header)));
  const std::uint64_t data = sizeof length + length[0];
  try {
    const auto entries = nlohmann::json::parse(header);
    for (const auto& [name, entry] : entries.items()) {
      if (name == "__metadata__") continue;
      const std::string dtype = entry.at("dtype");
      const auto format = format_of(dtype);
      if (!format) fail(fmt::format("{} has type {}; F32, BF16 and F16 can be read", name, dtype));
      Tensor tensor{.format = *format, .shape = entry.at("shape").get<std::vector<std::size_t>>()};
      const auto [begin, end] =
          entry.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
      if (begin > end || end > bytes - data)
        fail(
            fmt::format("the data of {} are bytes {} to {} of {}", name, begin, end, bytes - data));
      bool overflow = false;
      for (const std::size_t side : tensor.shape)
        overflow |= __builtin_mul_overflow(tensor.size, side, &tensor.size);
      if (overflow || tensor.size > bytes || tensor.size * bytes_of(*format) != end - begin)
        fail(fmt::format("{} has {} bytes, which its shape {} does not need", name, end - begin,
                         tensor.shape));
      tensor.begin = data + begin;
      tensors_.emplace(name, std::move(tensor));
    }
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
}

void SafetensorsReader::check(const std::vector<WholeParameter>& parameters) const {
  std::string wrong;
  std::size_t found = 0;
  for (const WholeParameter& parameter : parameters) {
    const auto tensor = tensors_.find(parameter.name);
    if (tensor == tensors_.end()) {
      wrong += fmt::format(" {} is missing.", parameter.name);
      continue;
    }
    ++found;
    const std::vector<std::size_t> shape = {parameter.rows, parameter.columns};
    if (essence(tensor->second.shape) != essence(shape)) {
      wrong += fmt::format(" {} has shape {}, the model's has {}.", parameter.name,
                           tensor->second.shape, shape);
    }
  }
  if (found < tensors_.size())
    wrong += fmt::format(" The model lacks {} tensors of the file.", tensors_.size() - found);
  if (!wrong.empty())
    throw Failure(fmt::format("{} is not of this model:{}", file_.path().string(), wrong));
}

void SafetensorsReader::read(const std::string& parameter, std::size_t first,
                             std::span<float> to) const {
  const auto found = tensors_.find(parameter);
  if (found == tensors_.end() || first > found->second.size ||
      to.size() > found->second.size - first) {
    throw Failure(fmt::format("{} does not have elements {} to {} of {}", file_.path().string(),
                              first, first + to.size(), parameter));
  }
  const Tensor& tensor = found->second;
  const std::uint64_t at = tensor.begin + first * bytes_of(tensor.format);
  if (tensor.format == Format::f32) return file_.read(at, std::as_writable_bytes(to));
  std::vector<std::byte> bytes(to.size() * bytes_of(tensor.format));
  file_.read(at, bytes);
  widen(tensor.format, to.size(), bytes.data(), to.data());
}

}  // namespace training
