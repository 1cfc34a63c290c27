// SPDX-License-Identifier: Apache-2.0
// The ranks that become a communicator, however they have come together.
#include "communicator/membership/assembly.hpp"

#include <utility>

#include "control/control_plane.hpp"
#include "control/topic_exchange.hpp"
#include "rendezvous/exchange/exchange.hpp"

namespace coll {

Assembly assembly_of(Meeting& meeting, Deadline deadline) {
  return {meeting.rank,
          meeting.size,
          {meeting.job[0], meeting.job[1]},
          meeting.one_network,
          [&meeting, deadline](std::string mine) {
            return exchange(meeting, std::move(mine), deadline);
          }};
}

Assembly assembly_of(Topic& topic, Deadline deadline) {
  return {
      topic.rank(), topic.size(), topic.plane()->job_of(topic.id()), topic.plane()->one_network(),
      [&topic, deadline](std::string mine) { return exchange(topic, std::move(mine), deadline); }};
}

}  // namespace coll
