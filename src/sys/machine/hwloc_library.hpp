// SPDX-License-Identifier: Apache-2.0
// Hwloc, loaded at run time, asked for one thing: this machine as XML.
#pragma once
#include <string>

#include "base/status.hpp"

namespace coll {

struct HwlocExport {
  std::string xml;
  bool this_machine = true;  ///< false: HWLOC_FSROOT or another of its variables named another one
};

/// What libhwloc 2 or later sees: within the limits of this process's cgroup and cpuset, all of
/// PCI.
Result<HwlocExport> hwloc_export();

}  // namespace coll
