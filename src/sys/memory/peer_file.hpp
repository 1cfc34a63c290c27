// SPDX-License-Identifier: Apache-2.0
// Files that another process has open, opened without its help.
#pragma once
#include <cstdint>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

/// The regular file at `place` of process `pid`, to be looked at only. The process must be in this
/// process's namespace of processes, and the kernel must let us see its descriptors. Whoever has
/// the number of the process by hearsay checks besides that the content is what it was told.
Result<Fd> find_peer_file(std::int64_t pid, const SharedPlace& place);
/// Processes with the same text here may open each other's files. They have one kernel, one
/// namespace of processes and one user. "": it cannot be found out.
std::string domain_of_peer_files();
/// The same for reading, or also for writing.
enum class PeerFileUse : std::uint8_t { read, write };
Result<Fd> open_peer_file(std::int64_t pid, const SharedPlace& place,
                          PeerFileUse use = PeerFileUse::read);

}  // namespace coll
