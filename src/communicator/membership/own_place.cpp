// SPDX-License-Identifier: Apache-2.0
// Looks at the machine where a rank needs it.
#include "communicator/membership/own_place.hpp"

#include <cstdlib>
#include <string_view>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "base/made_once.hpp"
#include "reduce/device/device_kernels.hpp"
#include "topology/find_gpu.hpp"
#include "topology/read/discover.hpp"
#include "topology/read/read_topology.hpp"

namespace coll {
namespace {

Result<Topology> look() {
  const std::string& described = knobs().topology;
  if (described.empty()) return discover();
  Result<Topology> read = read_topology_file(described);
  if (!read.ok()) return read.status().with_context("COLL_TOPOLOGY");
  if (const int hosts = read->count(NodeKind::host); hosts != 1) {
    return failed(Code::invalid_argument,
                  "COLL_TOPOLOGY=" + described + " describes " + std::to_string(hosts) + " hosts",
                  "describe the one host that the process is on");
  }
  return read;
}

Result<StreamDevice*> device_of(const OwnPlace& place) {
  // Then each launch waits for its kernel, and kernels wait for other ranks'.
  if (const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
      blocking != nullptr && std::string_view(blocking) != "0" && *blocking != '\0')
    return failed(Code::unsupported, "CUDA_LAUNCH_BLOCKING is set");
  return StreamDevice::at_bus(place.device);
}

Status load_kernels(StreamDevice& gpu) {
  if (reduce::device_kernels().empty())
    return failed(Code::unsupported, "this build has no kernels for GPUs");
  return gpu.load_kernels(reduce::device_kernels());
}

}  // namespace

const Result<Topology>& own_machine() {
  return made_once([] { return look(); });
}

Result<OwnPlace> own_place(const NamedDevice& device) {
  OwnPlace place;
  place.described = !knobs().topology.empty();
  if (device.name.empty() && !place.described) return place;
  const Result<Topology>& machine = own_machine();
  if (!machine.ok()) return machine.status();
  if (device.name.empty()) return place;
  COLL_ASSIGN(const NodeId gpu, find_gpu(*machine, machine->all(NodeKind::host).front(),
                                         device.name, device.visible));
  place.device = lasting_name(*machine, gpu);
  return place;
}

OwnGpu gpu_of(const OwnPlace& place) {
  if (place.device.empty() || loaded_cuda_driver() == nullptr) return {};
  const Result<StreamDevice*> gpu = device_of(place);
  if (!gpu.ok()) {
    log(LogLevel::info,
        "the host moves the calls of GPU " + place.device + ": " + gpu.status().text());
    return {};
  }
  const Status loaded = load_kernels(**gpu);
  if (loaded.ok()) return {*gpu, GpuMoves::everything};
  log(LogLevel::info,
      "the host moves the calls of GPU " + place.device + " that reduce: " + loaded.text());
  return {*gpu, GpuMoves::copies};
}

}  // namespace coll
