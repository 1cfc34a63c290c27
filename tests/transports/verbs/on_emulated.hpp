// SPDX-License-Identifier: Apache-2.0
// Verbs over emulated devices, for tests of the transport.
#pragma once
#include <mutex>
#include <string>
#include <utility>

#include "emulation/verbs/emulated_verbs.hpp"
#include "transports/registered_resource.hpp"
#include "transports/transport_backend.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace coll::test {

/// Rank r on devices r, r + 2, … of a fabric that each test has anew.
class Fabric : public testing::EmptyTestEventListener {
 public:
  /// Ranks that are threads may ask at once.
  static EmulatedVerbs& now() {
    const std::scoped_lock lock(making);
    if (fabric == nullptr) {
      // Registered once: whoever runs next gets another one.
      static const bool listens = [] {
        testing::UnitTest::GetInstance()->listeners().Append(new Fabric);
        return true;
      }();
      (void)listens;
      fabric = new EmulatedVerbs(4);
    }
    return *fabric;
  }
  /// Checks that the test left nothing.
  void OnTestEnd(const testing::TestInfo& /*test*/) override {
    delete fabric;
    fabric = nullptr;
  }

 private:
  static inline std::mutex making;
  static inline EmulatedVerbs* fabric = nullptr;
};

inline Backend on_emulated(std::string name, int ports, VerbsOptions options) {
  Backend backend{
      .name = std::move(name), .make = nullptr, .crosses_processes = false, .can_lend = true};
  backend.make = [ports, options](const TransportSpec& spec) {
    const int device = spec.rank % 2;
    return VerbsTransport::make(
        spec, Fabric::now().table(), options,
        ports == 1 ? Fabric::now().rails({device}) : Fabric::now().rails({device, device + 2}));
  };
  return backend;
}

/// With payloads in registered memory.
inline Backend lending(Backend backend) {
  backend.lends = true;
  backend.memory = RegisteredResource::of_process();
  return backend;
}

}  // namespace coll::test
