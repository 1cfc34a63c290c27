// SPDX-License-Identifier: Apache-2.0
// What a rank says of the machine that it is on.
#pragma once
#include <optional>
#include <string>

#include "communicator/membership/card.hpp"
#include "executor/device/stream_device.hpp"
#include "topology/topology.hpp"

namespace coll {

/// What the program says of the GPU that a rank uses.
struct NamedDevice {
  std::string name;                    ///< as find_gpu takes it; "": none, the rank is on its cores
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES, if it is set
};

struct OwnPlace {
  std::string device;      ///< the GPU that it uses, by a lasting_name; "": none, it is on cores
  bool described = false;  ///< COLL_TOPOLOGY describes the host
};

/// Finds what the program names on this host, which may take seconds. Without a device and the knob
/// it looks at nothing. An error depends on the host, so often one rank alone has it: tell the
/// others (agree_on_membership).
Result<OwnPlace> own_place(const NamedDevice& device);

struct OwnGpu {
  StreamDevice* device = nullptr;  ///< null: it moves nothing
  GpuMoves moves = GpuMoves::nothing;
};

/// The GPU of that place, and which calls it can move. It can move those that do not reduce where
/// the program has loaded and initialized CUDA before, and all where CUDA has also loaded the
/// kernels of this build. A line in the log says why it cannot.
OwnGpu gpu_of(const OwnPlace& place);

/// The host of this process: what COLL_TOPOLOGY describes, else what is found here. Looked at once
/// in a process.
const Result<Topology>& own_machine();

}  // namespace coll
