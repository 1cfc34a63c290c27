// SPDX-License-Identifier: Apache-2.0
// Where tuning tables lie, and how they are found.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "planner/tuning_table.hpp"

namespace coll {

/// A table and where it comes from, for people.
struct FoundTuning {
  TuningTable table;
  std::string file;  ///< empty: there is none
};

/// $XDG_CACHE_HOME/collectives, else ~/.cache/collectives; empty if neither is known.
std::string tuning_directory(const std::function<const char*(const char*)>& get_variable);
/// DIRECTORY/tuning-TOPOLOGY.json
std::string tuning_path(const std::string& directory, const std::string& topology);

Result<TuningTable> read_tuning_file(const std::string& path);
/// Replaces the file at once, so that whoever reads meanwhile sees the old or the new one whole;
/// makes the directory if need be.
Status write_tuning_file(const std::string& path, const TuningTable& table);

/// What COLL_TUNING asks for: "none", the path of a table, or "auto": all in `directory` that were
/// measured on machines like this one, merged. Never fails: a broken table is warned of, one of
/// another machine told at the level info, and left out.
FoundTuning find_tuning(std::string_view knob, const std::string& directory,
                        const std::function<std::string()>& signature);

/// The same with the process's environment and machine, looked up once.
const FoundTuning& process_tuning();

}  // namespace coll
