// SPDX-License-Identifier: Apache-2.0
// The matrix of `nvidia-smi topo -m`: its text; smi_tree.cpp makes a machine of it.
#include <algorithm>
#include <map>

#include "topology/read/read_topology.hpp"
#include "topology/read/smi_tree.hpp"
#include "topology/reader_text.hpp"

namespace coll {
namespace {

std::string without_colours(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {
      while (at < text.size() && text[at] != 'm') ++at;
      continue;
    }
    plain += text[at];
  }
  return plain;
}

/// "NODENODE" and "NV18NV18" as two words each: what a copy out of a terminal fuses.
std::vector<std::string_view> cells_of(std::string_view word) {
  std::vector<std::string_view> cells;
  while (!word.empty()) {
    std::size_t length = 0;
    for (const std::string_view known :
         {"PIX", "PXB", "PHB", "NODE", "SYS", "PSB", "SOC", "X", "?"})
      if (word.starts_with(known)) length = known.size();
    if (word.starts_with("NV"))
      length = std::min(word.find_first_not_of("0123456789", 2), word.size());
    if (length == 0) return {};
    cells.push_back(word.substr(0, length));
    word.remove_prefix(length);
  }
  return cells;
}

std::vector<std::string_view> devices_of(std::string_view word) {
  std::vector<std::string_view> devices;
  while (!word.empty()) {
    const std::size_t next =
        std::min(std::min(word.find("NIC", 1), word.find("GPU", 1)), word.size());
    devices.push_back(word.substr(0, next));
    word.remove_prefix(next);
  }
  return devices;
}

SmiCell cell_of(std::string_view text) {
  if (text.starts_with("NV")) {
    const int links = number<int>(text.substr(2)).value_or(0);
    return links > 0 ? SmiCell{Distance::link, links} : SmiCell{};
  }
  if (text == "X") return {Distance::self, 0};
  if (text == "PIX" || text == "PSB") return {Distance::pix, 0};
  if (text == "PXB") return {Distance::pxb, 0};
  if (text == "PHB") return {Distance::phb, 0};
  if (text == "NODE") return {Distance::node, 0};
  if (text == "SYS" || text == "SOC") return {Distance::sys, 0};
  return {};
}

/// The columns after the matrix, in the order that the header names them.
enum class Extra : std::uint8_t { cpus, numa, own_numa };

class SmiReader {
 public:
  SmiReader(std::string_view text, std::string_view name)
      : text_(without_colours(text)), name_(name) {
    topology_.source = name;
  }

  Result<Topology> read() {
    int line_number = 0;
    std::string_view rest = text_;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = trimmed(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++line_number;
      if (line.empty() || line.front() == '#') continue;
      if (line.starts_with("Legend") || line.starts_with("NIC Legend")) in_legend_ = true;
      const std::vector<std::string_view> words = split(line, " \t\r");
      if (line.starts_with("GPU ") && read_model(line)) continue;
      if (in_legend_)
        read_legend(words);
      else if (matrix_.devices.empty())
        COLL_TRY(read_header(words, line_number));
      else
        COLL_TRY(read_row(words, line_number));
    }
    if (matrix_.devices.empty())
      return unreadable(name_, 0, "no header that names GPU0", "paste all of nvidia-smi topo -m");
    if (rows_ == 0)
      return unreadable(name_, 0, "no row below the header", "paste all of nvidia-smi topo -m");
    if (rows_ < static_cast<int>(matrix_.devices.size()))
      topology_.warn(std::to_string(matrix_.devices.size()) + " devices in the header, " +
                     std::to_string(rows_) + " rows: the others are taken from their columns");
    for (SmiDevice& device : matrix_.devices)
      if (const auto model = models_.find(device.name); model != models_.end())
        device.model = model->second;
    build_smi_tree(matrix_, topology_);
    COLL_TRY(check(topology_));
    return std::move(topology_);
  }

 private:
  /// "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-…)", as `nvidia-smi -L` prints it.
  bool read_model(std::string_view line) {
    const std::size_t colon = line.find(": ");
    if (colon == line.npos || !number<int>(line.substr(4, colon - 4))) return false;
    const std::string_view model = line.substr(colon + 2);
    models_["GPU" + std::string(line.substr(4, colon - 4))] =
        trimmed(model.substr(0, std::min(model.find(" (UUID"), model.size())));
    return true;
  }

  Status read_header(const std::vector<std::string_view>& words, int line) {
    bool devices = true;
    std::vector<std::string> names;
    for (std::size_t at = 0; at < words.size(); ++at) {
      const std::string word = lower(words[at]);
      const bool affinity = at + 1 < words.size() && lower(words[at + 1]) == "affinity";
      if (word == "cpu_affinity" || (word == "cpu" && affinity)) extras_.push_back(Extra::cpus);
      if (word == "numa_affinity" || (word == "numa" && affinity)) extras_.push_back(Extra::numa);
      if (word == "gpu_numa_id" || (word == "gpu" && at + 1 < words.size()))
        extras_.push_back(Extra::own_numa);
      devices = devices && extras_.empty() && word != "gpu";
      if (devices && !(at == 0 && word == "dev"))
        for (const std::string_view name : devices_of(words[at])) names.emplace_back(name);
    }
    const bool header = std::find(names.begin(), names.end(), "GPU0") != names.end();
    if (!header) return {};  // what a shell printed before it
    if (names.size() > 1024)
      return unreadable(name_, line, std::to_string(names.size()) + " devices",
                        "up to 1024 are read");
    for (std::string& name : names) {
      matrix_.index[name] = matrix_.devices.size();
      matrix_.devices.push_back({std::move(name), {}, {}, {}, {}, {}});
    }
    matrix_.cells.resize(matrix_.devices.size() * matrix_.devices.size());
    return {};
  }

  Status read_row(const std::vector<std::string_view>& words, int line) {
    const auto row = matrix_.index.find(std::string(words.front()));
    if (row == matrix_.index.end()) {
      // A row that the header does not name, or other text.
      if (words.size() > 1 && !cells_of(words[1]).empty())
        return unreadable(name_, line, "row \"" + std::string(words.front()) + "\" has no column",
                          "paste all of nvidia-smi topo -m");
      return {};
    }
    ++rows_;
    const std::size_t width = matrix_.devices.size();
    std::size_t column = 0, at = 1;
    for (; at < words.size() && column < width; ++at) {
      const auto cells = cells_of(words[at]);
      if (cells.empty() && words[at] != "N/A")
        return unreadable(name_, line, "cell \"" + std::string(words[at]) + "\" is no distance",
                          "X, NV#, PIX, PXB, PHB, NODE, SYS or ?");
      if (cells.empty()) ++column;
      for (const std::string_view cell : cells)
        if (column < width) matrix_.cells[row->second * width + column++] = cell_of(cell);
    }
    SmiDevice& device = matrix_.devices[row->second];
    for (const Extra extra : extras_) {
      if (at >= words.size()) break;
      const auto list = CpuSet::from_list(words[at]);
      const bool known = list && !list->empty();
      if (!known && extra != Extra::own_numa)
        topology_.warn(device.name + (extra == Extra::cpus ? ": CPU" : ": NUMA") + " affinity \"" +
                       std::string(words[at]) + "\": taken as unknown");
      if (known && extra == Extra::cpus) device.cpus = *list;
      if (known && extra == Extra::numa) device.numa = *list;
      if (known && extra == Extra::own_numa) device.own_numa = *list;
      ++at;
    }
    return {};
  }

  /// "NIC0: mlx5_0"
  void read_legend(const std::vector<std::string_view>& words) {
    if (words.size() < 2 || !words[0].ends_with(':')) return;
    const auto found = matrix_.index.find(std::string(words[0].substr(0, words[0].size() - 1)));
    if (found != matrix_.index.end()) matrix_.devices[found->second].alias = words[1];
  }

  std::string text_;
  std::string_view name_;
  Topology topology_;
  SmiMatrix matrix_;
  std::map<std::string, std::string> models_;
  std::vector<Extra> extras_;
  bool in_legend_ = false;
  int rows_ = 0;
};

}  // namespace

Result<Topology> read_smi_matrix(std::string_view text, std::string_view name) {
  return SmiReader(text, name).read();
}

}  // namespace coll
