// SPDX-License-Identifier: Apache-2.0
// Builds the header and appends values.
#include "safetensors_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "../math/number_format.hpp"

namespace training {
namespace {

std::string header_of(const std::vector<WholeParameter>& parameters, Format format) {
  // PyTorch's loaders ask for this entry.
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const WholeParameter& parameter : parameters) {
    auto shape = nlohmann::json::array({parameter.columns});
    if (parameter.rows != 1) shape = {parameter.rows, parameter.columns};
    const std::uint64_t end = at + parameter.size() * bytes_of(format);
    header[parameter.name] = {{"dtype", format == Format::f32 ? "F32" : "BF16"},
                              {"shape", shape},
                              {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::vector<WholeParameter>& parameters, Format format)
    : path_(std::move(path)),
      unfinished_(path_.string() + ".tmp"),
      format_(format),
      file_(StoredFile::create(unfinished_)) {
  const std::string header = header_of(parameters, format);
  const std::array<std::uint64_t, 1> length = {header.size()};
  file_.write(0, std::as_bytes(std::span(length)));
  file_.write(sizeof length, std::as_bytes(std::span(header)));
  at_ = end_ = sizeof length + header.size();
  for (const WholeParameter& parameter : parameters) end_ += parameter.size() * bytes_of(format);
}

void SafetensorsWriter::write(std::span<const float> values) {
  while (!values.empty()) {
    const auto block = values.first(std::min(kBlockElements, values.size()));
    auto bytes = std::as_bytes(block);
    if (format_ != Format::f32) {
      narrowed_.resize(block.size() * bytes_of(format_));
      narrow(format_, block.size(), block.data(), narrowed_.data());
      bytes = narrowed_;
    }
    file_.write(at_, bytes);
    at_ += bytes.size();
    values = values.subspan(block.size());
  }
}

void SafetensorsWriter::finish() {
  if (at_ != end_) {
    throw Failure(
        fmt::format("{} got values up to byte {} of {}", unfinished_.string(), at_, end_));
  }
  file_.sync();
  rename_path(unfinished_, path_);
  sync_folder(std::filesystem::absolute(path_).parent_path());
}

void export_safetensors(CheckpointReader& reader, const std::filesystem::path& path,
                        Format format) {
  SafetensorsWriter writer(path, reader.manifest().parameters, format);
  std::vector<float> values(kBlockElements);
  for (const WholeParameter& parameter : reader.manifest().parameters) {
    for (std::size_t at = 0; at < parameter.size(); at += kBlockElements) {
      const std::size_t count = std::min(kBlockElements, parameter.size() - at);
      reader.read({State::weights, parameter.name, at, count}, std::span(values).first(count));
      writer.write(std::span(values).first(count));
    }
  }
  writer.finish();
}

}  // namespace training
