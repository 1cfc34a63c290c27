// SPDX-License-Identifier: Apache-2.0
// Finds, reads and writes the files of tuning tables.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "planner/tuning_table.hpp"

namespace coll {

/// A table, and the file it comes from for messages.
struct FoundTuning {
  TuningTable table;
  std::string file;  ///< empty: no table was found
};

/// DIRECTORY/tuning-TOPOLOGY.json
std::string tuning_path(const std::string& directory, const std::string& topology);

Result<TuningTable> read_tuning_file(const std::string& path);
/// Replaces the file atomically: a concurrent reader sees either the whole old table or the whole
/// new one. Creates the directory if it is missing.
Status write_tuning_file(const std::string& path, const TuningTable& table);

/// The table that COLL_TUNING asks for: none for "none", the table at a path, or for "auto" all
/// tables in `directory` that were measured on machines like this one, merged. Never fails: it
/// skips a broken table with a warning, and a table of another machine with a log line at level
/// info.
FoundTuning find_tuning(std::string_view knob, const std::string& directory,
                        const std::function<std::string()>& signature);

/// find_tuning with the environment and machine of this process, looked up once; or what is tried.
const FoundTuning& process_tuning();
/// Communicators that this process makes from now on plan with this table, whatever COLL_TUNING
/// says: for tools that judge a table before they write it. No other thread may be joining.
void try_tuning(FoundTuning tuning);

}  // namespace coll
