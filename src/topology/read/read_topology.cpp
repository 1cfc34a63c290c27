// SPDX-License-Identifier: Apache-2.0
// Finds out which format a text has, and calls its reader.
#include "topology/read/read_topology.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "topology/gpu_models.hpp"
#include "topology/reader_text.hpp"

namespace coll {

namespace {

/// Warns of missing links in one host, as its tools describe it.
Result<Topology> with_warnings(Result<Topology> read) {
  if (read.ok()) warn_of_missing_links(*read);
  return read;
}

}  // namespace

Result<Topology> read_topology(std::string_view text, std::string_view name) {
  const std::string_view body = trimmed(text);
  if (body.empty())
    return unreadable(name, 0, "is empty", "see docs/topology.md for what can be read");
  if (text.find('\0') != text.npos)
    return unreadable(name, 0, "is no text", "see docs/topology.md for what can be read");
  if (body.front() == '{') {
    const auto has = [&](std::string_view key) { return body.find(key) != body.npos; };
    return !has("\"topology_version\"") && has("\"cluster\"") ? read_cluster(text, name)
                                                              : read_topology_json(text, name);
  }
  if (body.front() == '<') {
    const bool nccl = body.find("<system") != body.npos;
    return with_warnings(nccl ? read_nccl_xml(text, name) : read_hwloc_xml(text, name));
  }
  if (body.find("GPU0") != body.npos) return with_warnings(read_smi_matrix(text, name));
  if (body.find('\n') == body.npos && body.find(':') != body.npos)
    return read_synthetic(text, name);
  return unreadable(
      name, 1, "is in no known format",
      "hwloc XML, NCCL XML, nvidia-smi topo -m, our JSON, a cluster file, or one line such as "
      "host:2 gpu:8 nvlink:switch nic:8@400G");
}

Result<Topology> read_topology_file(const std::string& what) {
  std::error_code error;
  const bool exists = std::filesystem::exists(what, error);
  if (!exists && what.find(':') != what.npos && what.find('/') == what.npos)
    return read_topology(what, "topology");
  std::ifstream file(what, std::ios::binary);
  if (!file || std::filesystem::is_directory(what, error))
    return system_failure("cannot read topology \"" + what + "\"", exists ? errno : ENOENT,
                          "a file, or one line such as host:2 gpu:8 nvlink:switch nic:8@400G");
  std::ostringstream text;
  text << file.rdbuf();
  return read_topology(text.str(), what);
}

}  // namespace coll
