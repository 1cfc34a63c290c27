// SPDX-License-Identifier: Apache-2.0
// Log lines for a person, on standard error.
#pragma once
#include <string_view>

namespace coll {

enum class LogLevel : unsigned char { error, warn, info, debug };

/// Is a line of this level wanted (COLL_LOG)? Ask before building an expensive text.
bool log_enabled(LogLevel level);

/// Writes one whole line "[coll rank 3] text"; a single write(2), so ranks' lines do not mix.
void log(LogLevel level, std::string_view text);

/// The rank to name in this process's lines; -1 leaves it out (several ranks in one process).
void log_set_rank(int rank);

}  // namespace coll
