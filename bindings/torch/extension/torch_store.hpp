// SPDX-License-Identifier: Apache-2.0
// Waiting for a key of PyTorch's store.
#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace collectives_torch {

/// Whether the key is in the store in time. A timeout of 0 or less looks once. Throws what the
/// store throws for other reasons.
bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout);

}  // namespace collectives_torch
