// SPDX-License-Identifier: Apache-2.0
// Contexts: the one of each device, and which of them is current in a thread.
#pragma once
#include <mutex>
#include <set>

#include "emulation/cuda/driver/emulated_stream.hpp"

namespace emucuda {

/// The primary context of a device.
struct Context {
  explicit Context(int of) : device(of) {}
  const int device;
  std::mutex mutex;
  int retained = 0;
  std::set<int> peers;  // devices whose memory it may reach, beside its own
  Kept<Stream> no_stream;

  /// That of the handle 0.
  Stream& default_stream();
  /// The same if it was used before; else none.
  Kept<Stream> known_default_stream();
  [[nodiscard]] bool reaches(int other);
};

inline CUcontext handle_of(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}
/// Null: none, or one that has been released.
Context* current_context();
Context& context_of(int device);

}  // namespace emucuda
