// SPDX-License-Identifier: Apache-2.0
// The Python module: makes groups for torch.distributed. The only file with the headers of Python.
#include <pybind11/chrono.h>
#include <torch/extension.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "torch_backend.hpp"

namespace collectives_torch {

namespace {

/// What torch.distributed calls for each group: waits for its other ranks.
c10::intrusive_ptr<c10d::Backend> make_group(const c10d::DistributedBackendOptions& of_group,
                                             const c10::intrusive_ptr<GroupOptions>& options,
                                             const std::string& name) {
  const auto timeout = std::chrono::duration_cast<Milliseconds>(of_group.timeout);
  auto own = c10::make_intrusive<GroupOptions>(timeout, name);
  if (options && options->timeout != c10d::kUnsetTimeout) own->timeout = options->timeout;
  Identity who{of_group.group_id, of_group.group_rank, of_group.group_size,
               of_group.global_ranks_in_group};
  auto group = Group::join(of_group.store, std::move(who), own->timeout);
  return c10::make_intrusive<CollBackend>(std::move(group), of_group.store, std::move(own));
}

py::dict stats(CollBackend& backend) {
  const coll_stats_t stats = [&] {
    const py::gil_scoped_release released;  // the group may be waiting for its end
    return backend.stats();
  }();
  py::dict named;
  named["operations"] = stats.operations;
  named["bytes_sent"] = stats.bytes_sent;
  named["bytes_received"] = stats.bytes_received;
  return named;
}

}  // namespace

}  // namespace collectives_torch

PYBIND11_MODULE(_extension, module) {
  using namespace collectives_torch;
  py::module_::import("torch.distributed");  // the types of the signatures
  module.attr("built_for") =
      std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  module.doc() = "The c10d backend over libcollectives.";
  module.def("make_group", &make_group, py::arg("of_group"), py::arg("options"), py::arg("name"),
             py::call_guard<py::gil_scoped_release>());
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(module,
                                                                                     "Options")
      .def(py::init([](std::optional<Milliseconds> timeout) {
             return c10::make_intrusive<GroupOptions>(timeout.value_or(c10d::kUnsetTimeout));
           }),
           py::arg("timeout") = py::none());
  py::class_<CollBackend, c10d::Backend, c10::intrusive_ptr<CollBackend>>(module, "Backend")
      .def("stats", &stats, "Operations that succeeded, and the bytes that they moved.");
}
