// SPDX-License-Identifier: Apache-2.0
// The conformance suite over verbs, on real devices.
#include "transports/conformance/landing_conformance.hpp"
#include "transports/registered_resource.hpp"
#include "transports/verbs/verbs_backends.hpp"

namespace coll::test {
namespace {

Backend verbs(std::string name, bool lends) {
  Backend backend{.name = std::move(name),
                  .make = make_on_own_port,
                  .sees_death = true,
                  .outlives_sender = false,
                  .can_lend = true,
                  .lends = lends,
                  .messages = 400 / patience(),
                  .absent = why_no_verbs};
  if (lends) backend.memory = RegisteredResource::of_process();
  return backend;
}

INSTANTIATE_TEST_SUITE_P(Verbs, TransportConformance,
                         testing::Values(verbs("slots", false), verbs("lending", true)),
                         name_of_backend);
INSTANTIATE_TEST_SUITE_P(Verbs, LandingConformance, testing::Values(verbs("lending", true)),
                         name_of_backend);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LendingConformance);

}  // namespace
}  // namespace coll::test
