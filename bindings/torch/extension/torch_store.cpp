// SPDX-License-Identifier: Apache-2.0
// Waiting for a key of PyTorch's store.
#include "torch_store.hpp"

#include <c10/util/Exception.h>

namespace collectives_torch {

bool comes(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) return store.check({key});
  const auto until = std::chrono::steady_clock::now() + timeout;
  try {
    store.wait({key}, timeout);
    return true;
  } catch (const c10::DistNetworkError&) {
    throw;
  } catch (const c10::Error&) {
    // Each kind of store has another exception for a timeout, so the clock tells.
    if (std::chrono::steady_clock::now() < until) throw;
    return false;
  }
}

}  // namespace collectives_torch
