// SPDX-License-Identifier: Apache-2.0
// Verbs over emulated devices, for tests of the transport.
#pragma once
#include <mutex>
#include <random>
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

inline void mend_all() {
  for (const int each : {0, 1, 2, 3}) {
    Fabric::now().set_port(each, true);
    Fabric::now().go_on(each);
  }
}

/// In one step of 10 something of the fabric breaks; in one of 25 all of it is mended.
inline void break_something(std::mt19937_64& random, int step) {
  EmulatedVerbs& fabric = Fabric::now();
  const auto pairs = fabric.pairs();
  const int device = static_cast<int>(random() % 4);
  switch (random() % 40) {
    case 0:
      return fabric.lose_ack(pairs[random() % pairs.size()]);
    case 1:
      return fabric.set_port(device, false);
    case 2:
      return fabric.hold(device);
    case 3:
      return fabric.exceed_retries(device);
    default:
      break;
  }
  if (step % 25 == 0) mend_all();
}

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
