// SPDX-License-Identifier: Apache-2.0
// Which kind of machine this is, in one line.
#include "sys/machine/machine_signature.hpp"

#include <functional>
#include <map>
#include <vector>

#include "sys/folder.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

namespace files = std::filesystem;

/// What the first processor says of its make; kernels name that differently.
std::string processor(const std::string& root) {
  constexpr const char* kFields[] = {"model name",      "cpu family", "model",      "stepping",
                                     "CPU implementer", "CPU part",   "CPU variant"};
  const Result<std::string> cpuinfo = read_file(root + "/proc/cpuinfo");
  if (!cpuinfo.ok()) return {};
  std::map<std::string, std::string, std::less<>> said;
  std::string_view rest = *cpuinfo;
  for (std::string_view line = take_line(rest); !line.empty(); line = take_line(rest)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string_view field = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    said[std::string(field)] = line.substr(colon + 2);
  }
  std::string text;
  for (const char* field : kFields)
    if (said.contains(field)) text += (text.empty() ? "" : " ") + said[field];
  return text;
}

/// PCI functions that make machines differ: network, display, accelerators; how many of each.
std::map<std::string, int> devices(const std::string& root) {
  std::map<std::string, int> counts;
  for (const files::path& folder : entries_of(root + "/sys/bus/pci/devices")) {
    const std::string kind = first_line_of(folder / "class").substr(0, 4);
    if (kind != "0x02" && kind != "0x03" && kind != "0x12") continue;
    const auto id = [&](const char* file) {
      const std::string word = first_line_of(folder / file);
      return word.starts_with("0x") ? word.substr(2) : word;
    };
    ++counts[id("vendor") + ":" + id("device")];
  }
  return counts;
}

}  // namespace

std::string machine_signature(const std::string& root) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& what, const std::string& value) {
    if (!value.empty()) parts.push_back(what + value);
  };
  const std::string system = root + "/sys/devices/system/";
  std::string caches;
  for (const files::path& cache : entries_of(system + "cpu/cpu0/cache"))
    if (const std::string size = first_line_of(cache / "size"); !size.empty())
      caches += (caches.empty() ? "" : " ") + size;
  add("", processor(root));
  add("PUs ", first_line_of(system + "cpu/present"));
  add("NUMA nodes ", first_line_of(system + "node/online"));
  add("caches ", caches);
  for (const auto& [device, count] : devices(root)) add(std::to_string(count) + "x ", device);
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace coll
