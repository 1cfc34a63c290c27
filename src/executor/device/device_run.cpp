// SPDX-License-Identifier: Apache-2.0
// What runs on a device have in common, whichever executor moves them.
#include "executor/device/device_run.hpp"

#include <algorithm>
#include <string>

#include "base/check.hpp"

namespace coll {

Result<DevicePort*> device_port_of(Connection& connection, std::size_t message_bytes,
                                   bool for_kernels) {
  DevicePort* const port = connection.device_port();
  COLL_TRY(connection.status());
  if (port == nullptr || (for_kernels && port->sending().kernels.ready == 0)) {
    return failed(Code::unsupported, "the connection to rank " + std::to_string(connection.peer()) +
                                         " serves no " + (for_kernels ? "kernels" : "device"))
        .at_rank(connection.peer());
  }
  const std::uint32_t credits = std::min(port->sending().credits, port->receiving().credits);
  const std::size_t slot = std::min(port->sending().stride, port->receiving().stride);
  COLL_CHECK(credits > 0 && slot >= message_bytes, "a port has slots, and a message fits in");
  return port;
}

void begin_on_device(Run& run) {
  COLL_CHECK(!run.held, "a device's run moves from its begin on");
  run.left = 1;
  run.lost = false;
  run.queued = run.moved = run.lent = run.flushed = run.by_pass = false;
  run.failure = {};
  for (Run::Cursor& lane : run.lanes) lane.state = Run::Cursor::State::moving;
}

void end_on_device(Run& run) {
  run.flushed = true;
  for (Run::Cursor& lane : run.lanes) lane.state = Run::Cursor::State::done;
}

}  // namespace coll
