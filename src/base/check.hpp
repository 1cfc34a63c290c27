// SPDX-License-Identifier: Apache-2.0
// A broken invariant ends the process with a message.
#pragma once

namespace coll {
[[noreturn]] void check_failed(const char* condition, const char* message, const char* file,
                               int line);
}  // namespace coll

/// For what only a defect of the library can break; never for a user's mistake or a peer's.
#define COLL_CHECK(condition, message)                               \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::coll::check_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
