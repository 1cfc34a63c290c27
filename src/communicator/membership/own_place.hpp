// SPDX-License-Identifier: Apache-2.0
// What a rank says of the machine that it is on.
#pragma once
#include <string>
#include <string_view>

#include "topology/topology.hpp"

namespace coll {

struct OwnPlace {
  std::string device;      ///< the GPU that it uses, by a lasting_name; "": none, it is on cores
  bool described = false;  ///< COLL_TOPOLOGY describes the host
};

/// Checks what the program and the knob say: `device` as find_gpu takes it, `visible` as
/// CUDA_VISIBLE_DEVICES has it. Without a device and the knob it looks at nothing.
Result<OwnPlace> own_place(std::string_view device, std::string_view visible);

/// The host of this process: what COLL_TOPOLOGY describes, else what is found here. Looked at once
/// in a process.
const Result<Topology>& own_machine();

}  // namespace coll
