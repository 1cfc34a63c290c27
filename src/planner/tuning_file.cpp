// SPDX-License-Identifier: Apache-2.0
// Where tuning tables lie, and how they are found.
#include "planner/tuning_file.hpp"

#include <filesystem>
#include <memory>
#include <utility>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/made_once.hpp"
#include "sys/folder.hpp"
#include "sys/machine/machine_signature.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

namespace files = std::filesystem;

constexpr std::size_t kLargestFile = 64 << 20;  // a table of everything is a hundredth of it

constinit std::unique_ptr<const FoundTuning> g_tried;

/// Those that coll-tune writes by itself, in order.
std::vector<std::string> tables_in(const std::string& directory) {
  std::vector<std::string> paths;
  if (directory.empty()) return paths;
  for (const files::path& path : entries_of(directory)) {
    const std::string name = path.filename().string();
    if (name.starts_with("tuning-") && name.ends_with(".json")) paths.push_back(path);
  }
  return paths;
}

}  // namespace

std::string tuning_path(const std::string& directory, const std::string& topology) {
  return directory + "/tuning-" + topology + ".json";
}

Result<TuningTable> read_tuning_file(const std::string& path) {
  const Result<std::string> text = read_file(path, kLargestFile);
  if (text.ok()) return read_tuning_json(*text, path);
  const Failure& why = *text.status().failure();
  return failed(why.code, "tuning table: " + why.what, "measure one with coll-tune", why.error);
}

Status write_tuning_file(const std::string& path, const TuningTable& table) {
  Status written = make_folder(files::path(path).parent_path());
  if (written.ok()) written = replace_file(path, to_json(table));
  if (written.ok()) return written;
  const Failure& why = *written.failure();
  return failed(why.code, "tuning table " + path + ": " + why.what,
                "name another place with --table", why.error);
}

FoundTuning find_tuning(std::string_view knob, const std::string& directory,
                        const std::function<std::string()>& signature) {
  if (knob == "none") return {};
  const bool named = knob != "auto";
  const std::vector<std::string> paths =
      named ? std::vector<std::string>{std::string(knob)} : tables_in(directory);
  if (paths.empty()) return {};
  const std::string here = signature();
  FoundTuning found;
  for (const std::string& path : paths) {
    const Result<TuningTable> read = read_tuning_file(path);
    if (!read.ok()) {
      log(LogLevel::warn, "going on without the tuning table: " + read.status().text());
      continue;
    }
    if (!read->machine.empty() && read->machine != here) {
      std::string text = "the tuning table " + path;
      text.append(" is not used: it was measured on ").append(read->machine);
      log(LogLevel::info, text.append(", this is ").append(here));
      continue;
    }
    if (found.file.empty()) {
      found = {*read, path};
    } else {
      found.table.merge(*read);
      found.file += ", " + path;
    }
  }
  if (!found.file.empty()) log(LogLevel::info, "tuning table " + found.file);
  return found;
}

const FoundTuning& process_tuning() {
  if (g_tried) return *g_tried;
  return made_once([] {
    return find_tuning(knobs().tuning, cache_folder(), [] { return machine_signature(); });
  });
}

void try_tuning(FoundTuning tuning) {
  g_tried = std::make_unique<const FoundTuning>(std::move(tuning));
}

}  // namespace coll
