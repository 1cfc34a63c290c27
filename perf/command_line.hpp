// SPDX-License-Identifier: Apache-2.0
// perf/: tools around the library. This file: how their command lines end.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace perf {

inline constexpr int kBadUsage = 2;  ///< exit code of all tools, as of most others

/// The exit code if the program has nothing left to do: 0 after --help, kBadUsage after a mistake,
/// of which standard error says what and whose it is.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{0}: {1}; {0} --help says more\n", app.get_name(), error.what());
    return kBadUsage;
  }
}

/// The words of a comma list, the empty ones left out.
inline std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.empty()) all.push_back(word);
  return all;
}

}  // namespace perf
