// SPDX-License-Identifier: Apache-2.0
// Where tuning tables lie, and how they are found.
#include "planner/tuning_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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

std::string tuning_directory(const std::function<const char*(const char*)>& get_variable) {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", "/collectives"), std::pair("HOME", "/.cache/collectives")}) {
    const char* const value = get_variable(variable);
    if (value != nullptr && *value == '/') return std::string(value) + below;
  }
  return {};
}

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
  std::error_code error;
  if (const files::path folder = files::path(path).parent_path(); !folder.empty())
    files::create_directories(folder, error);
  const std::string unfinished = path + "." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(unfinished, std::ios::trunc | std::ios::binary);
  file << to_json(table);
  file.close();
  if (!file) {
    const int why = errno;
    files::remove(unfinished, error);
    return system_failure("writing the tuning table " + path, why,
                          "name another place with --table");
  }
  files::rename(unfinished, path, error);
  if (error) {
    const int why = error.value();
    files::remove(unfinished, error);
    return system_failure("writing the tuning table " + path, why);
  }
  return {};
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
  return made_once([] {
    return find_tuning(knobs().tuning, tuning_directory([](const char* name) -> const char* {
                         return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once
                       }),
                       [] { return machine_signature(); });
  });
}

}  // namespace coll
