// SPDX-License-Identifier: Apache-2.0
// What runs have on the device from their begin to their end.
#include "executor/device/stream_flights.hpp"

#include <algorithm>

namespace coll {

StreamFlights::~StreamFlights() {
  if (std::ranges::any_of(all_, [](const auto& flight) { return flight->lost; })) words_.abandon();
}

Status StreamFlights::reserve(std::size_t lanes) {
  while (all_.size() < kFlights) all_.push_back(std::make_unique<StreamFlight>());
  for (const auto& flight : all_) {
    while (flight->words.size() < lanes) {
      COLL_ASSIGN(const PinnedWord word, words_.next());
      flight->words.push_back(word);
    }
  }
  return {};
}

StreamFlight* StreamFlights::take(StreamProgram& program) {
  const auto free =
      std::ranges::find_if(all_, [](const auto& flight) { return flight->program == nullptr; });
  if (free == all_.end()) return nullptr;
  StreamFlight& flight = **free;
  for (const PinnedWord& word : flight.words) word.set(0);
  flight.passes = 0;
  flight.vain = 0;
  flight.program = &program;
  return &flight;
}

}  // namespace coll
