// SPDX-License-Identifier: Apache-2.0
// The library's own threads: signals blocked, failure to start reported.
#pragma once
#include <functional>
#include <string>
#include <thread>

#include "base/status.hpp"

namespace coll {

/// Starts a thread called `name` (at most 15 characters, as the system shows it) for `body`. The
/// user's signal handlers run on the user's threads: all signals are blocked on it but those of its
/// own faults. Fails where the system has no more threads; `purpose` says then what it was for:
/// "starting a thread PURPOSE".
Result<std::thread> start_thread(const char* name, const std::string& purpose,
                                 std::function<void()> body);

}  // namespace coll
