// SPDX-License-Identifier: Apache-2.0
// Settings of one process group, as PyTorch hands them around.
#pragma once
#include <torch/headeronly/version.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace collectives_torch {

/// Which members of c10d this PyTorch has. 2.15 is what is tested.
#define COLLECTIVES_TORCH_AT_LEAST(minor) \
  (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

struct GroupOptions final : c10d::Backend::Options {
  explicit GroupOptions(std::chrono::milliseconds after = kBackendDefaultTimeout,
                        std::string backend_name = "coll")
      : c10d::Backend::Options(std::move(backend_name), after) {}
  GroupOptions(const GroupOptions&) = default;

  // Since 2.15 a virtual function of the base.
  // NOLINTNEXTLINE(modernize-use-override)
  c10::intrusive_ptr<c10d::Backend::Options> clone() const {
    return c10::make_intrusive<GroupOptions>(*this);
  }
};

}  // namespace collectives_torch
