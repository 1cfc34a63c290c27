// SPDX-License-Identifier: Apache-2.0
// What runs have on the device from their begin to their end.
#include "executor/device/stream_flights.hpp"

#include <algorithm>

#include "sys/cuda/beside_captures.hpp"

namespace coll {

StreamFlights::~StreamFlights() {
  // What was abandoned writes its word once the user's stream gets there.
  const bool written_later = std::ranges::any_of(
      all_, [](const auto& flight) { return !flight->captured && !flight->over.is_set(); });
  for (const auto& flight : all_) {
    for (CudaEvent event : flight->ends) device_.driver().event_destroy(event);
  }
  if (written_later) words_.abandon();
}

Result<StreamFlight*> StreamFlights::take(StreamProgram& program, std::size_t lanes) {
  StreamFlight* flight = nullptr;
  for (const auto& one : all_) {
    // What was abandoned still writes its word at its end.
    if (one->program == nullptr && !one->captured && one->over.is_set()) {
      flight = one.get();
      break;
    }
  }
  if (flight == nullptr) {
    COLL_ASSIGN(flight, make());
  }
  while (flight->ends.size() < lanes) {
    const BesideCaptures beside(device_.driver());
    CudaEvent event = nullptr;
    if (const int error = device_.driver().create_untimed(&event))
      return device_.failed_to("an event", error);
    flight->ends.push_back(event);
  }
  flight->streams.clear();
  flight->streams.reserve(lanes);
  flight->over.set(0);
  flight->gate.set(0);
  flight->vain = 0;
  flight->program = &program;
  return flight;
}

Result<StreamFlight*> StreamFlights::make() {
  auto made = std::make_unique<StreamFlight>();
  COLL_ASSIGN(made->over, words_.next());
  COLL_ASSIGN(made->gate, words_.next());
  made->over.set(1);
  return all_.emplace_back(std::move(made)).get();
}

}  // namespace coll
