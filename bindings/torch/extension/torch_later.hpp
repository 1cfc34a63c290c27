// SPDX-License-Identifier: Apache-2.0
// Threads for what nobody may be kept waiting for.
#pragma once
#include <functional>

namespace collectives_torch {

/// Has a thread call `task`. The library's thread that ends an operation must not complete it
/// itself: completing runs functions of the user, which may wait for other operations.
///
/// The threads belong to the process and begin when they are needed. There are several because a
/// function that waits keeps its thread.
void run_later(std::function<void()> task);

}  // namespace collectives_torch
