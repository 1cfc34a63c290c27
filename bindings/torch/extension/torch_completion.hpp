// SPDX-License-Identifier: Apache-2.0
// Threads that complete operations for which nobody waits.
#pragma once
#include <c10/util/intrusive_ptr.h>

namespace collectives_torch {

class GroupWork;

/// Has a thread call work->complete(). The library's thread that ends an operation must not do so
/// itself: completing runs functions of the user, which may wait for other operations.
///
/// The threads belong to the process and begin when they are needed. There are several because a
/// function that waits keeps its thread.
void complete_later(c10::intrusive_ptr<GroupWork> work);

}  // namespace collectives_torch
