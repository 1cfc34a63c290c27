// SPDX-License-Identifier: Apache-2.0
// The manifest as JSON: {"sha256": "<of the rest of the file>", "checkpoint": {…}}.
#include "manifest.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sha256.hpp"
#include "stored_file.hpp"

namespace training {
namespace {

using Json = nlohmann::json;
constexpr int kManifestVersion = 1;

std::string begin_of(const std::string& rest) {
  return "{\"sha256\": \"" + to_hex(sha256(std::as_bytes(std::span(rest)))) + "\",\n";
}

Json trainer_of(const Manifest& manifest) {
  try {
    return Json::parse(manifest.trainer);
  } catch (const Json::exception& error) {
    throw Failure(fmt::format("the trainer's state is no JSON: {}", error.what()));
  }
}

}  // namespace

std::string shard_name(std::size_t rank) {
  return fmt::format("shard-{:05}.bin", rank);
}

std::string encode(const Manifest& manifest) {
  Json shards = Json::array(), parameters = Json::array();
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    const ShardEntry& shard = manifest.shards[rank];
    shards.push_back({{"file", shard_name(rank)}, {"bytes", shard.bytes}, {"head", shard.head}});
  }
  for (const WholeParameter& parameter : manifest.parameters) {
    parameters.push_back(
        {{"name", parameter.name}, {"rows", parameter.rows}, {"columns", parameter.columns}});
  }
  const Json content = {{"version", kManifestVersion},
                        {"step", manifest.step},
                        {"shards", shards},
                        {"parameters", parameters},
                        {"trainer", trainer_of(manifest)}};
  const std::string rest = "\"checkpoint\": " + content.dump(1) + "}\n";
  return begin_of(rest) + rest;
}

Manifest decode_manifest(const std::string& text, const std::filesystem::path& path) {
  const std::size_t size = begin_of("").size();
  if (text.size() < size || text.substr(0, size) != begin_of(text.substr(size)))
    throw Damaged(fmt::format("{} is damaged: its SHA-256 is another", path.string()));
  try {
    const Json content = Json::parse(text).at("checkpoint");
    if (const int version = content.at("version"); version != kManifestVersion) {
      throw Failure(fmt::format("{} has version {} of the format; this program reads version {}",
                                path.string(), version, kManifestVersion));
    }
    Manifest manifest;
    manifest.step = content.at("step");
    for (const Json& shard : content.at("shards")) {
      manifest.shards.push_back({shard.at("bytes"), shard.at("head")});
    }
    for (const Json& parameter : content.at("parameters")) {
      manifest.parameters.push_back(
          {parameter.at("name"), parameter.at("rows"), parameter.at("columns")});
    }
    manifest.trainer = content.at("trainer").dump();
    return manifest;
  } catch (const Json::exception& error) {
    throw Damaged(fmt::format("{} is no manifest: {}", path.string(), error.what()));
  }
}

}  // namespace training
