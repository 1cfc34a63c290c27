// SPDX-License-Identifier: Apache-2.0
// Every process below this one, however it came there.
#pragma once
#include <sys/types.h>

#include <vector>

namespace perf {

/// From now on a process below this one that loses its parent becomes a child of this one, be it in
/// a group or a session of its own: a family has no other way out.
void adopt_orphans();

/// Whether there is any child, ended or not.
bool has_children();

/// Every child, ended or not.
std::vector<pid_t> children();

/// Sends SIGKILL to every child; false if there is none that takes it (one of another user may
/// not). Theirs are next: they become children of this process.
bool kill_children();

/// Kills every process below this one and waits for their ends.
void kill_family();

}  // namespace perf
