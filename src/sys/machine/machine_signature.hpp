// SPDX-License-Identifier: Apache-2.0
// Which kind of machine this is, in one line.
#pragma once
#include <string>

namespace coll {

/// Equal for machines of equal build, whatever PUs this process may use: "Intel(R) Xeon(R)
/// Processor 6 207 2, PUs 0-1, NUMA nodes 0, caches 48K 32K 2048K 266240K, 8x 10de:2330". Read from
/// ROOT/proc and ROOT/sys by no library: a cheap stand-in for the hash of the whole topology, by
/// which to know again what was measured here. "" where there is neither.
std::string machine_signature(const std::string& root = "");

}  // namespace coll
