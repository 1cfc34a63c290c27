// SPDX-License-Identifier: Apache-2.0
// The conformance suite over verbs, on real devices.
#include "transports/transport_conformance.hpp"
#include "transports/verbs/verbs_backends.hpp"

namespace coll::test {
namespace {

const Backend kVerbs{.name = "verbs",
                     .make = make_on_own_port,
                     .sees_death = true,
                     .can_lend = true,
                     .absent = why_no_verbs};

INSTANTIATE_TEST_SUITE_P(Verbs, TransportConformance, testing::Values(kVerbs), name_of_backend);

}  // namespace
}  // namespace coll::test
