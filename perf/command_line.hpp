// SPDX-License-Identifier: Apache-2.0
// How every tool ends on a bad command line.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace perf {

inline constexpr int kBadUsage = 2;  ///< exit code of all tools, as of most others

/// What is wrong with a command line. CLI's own words name arguments without a meaning in reverse.
inline std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  return fmt::format("not understood: {}", fmt::join(app.remaining(true), " "));
}

/// The exit code if the program has nothing left to do: 0 after --help, kBadUsage after a mistake,
/// which standard error explains.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{0}: {1}; {0} --help says more\n", app.get_name(), complaint(app, error));
    return kBadUsage;
  }
}

/// For an option in seconds. CLI's own checks of ranges let NaN pass.
inline CLI::Validator seconds_from(double least,
                                   double most = std::numeric_limits<double>::infinity()) {
  std::string range = std::isinf(most) ? fmt::format("from {:g} on", least)
                                       : fmt::format("from {:g} to {:g}", least, most);
  const auto check = [=](const std::string& text) {
    double seconds = 0;
    const bool good =
        CLI::detail::lexical_cast(text, seconds) && seconds >= least && seconds <= most;
    return good ? std::string() : fmt::format("{} is not a number of seconds {}", text, range);
  };
  return {check, range};
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
