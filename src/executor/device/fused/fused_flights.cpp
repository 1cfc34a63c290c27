// SPDX-License-Identifier: Apache-2.0
// What runs of fused kernels have from their begin to their end.
#include "executor/device/fused/fused_flights.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace coll {

FusedFlights::~FusedFlights() {
  if (!all_ended()) words_.abandon();
}

Result<FusedFlight*> FusedFlights::take(FusedProgram& program, const Run& run) {
  const auto free = std::ranges::find_if(all_, [](const auto& flight) {
    // What was abandoned may end later.
    return flight->program == nullptr && flight->end() != 0;
  });
  FusedFlight* flight = nullptr;
  if (free != all_.end()) {
    flight = free->get();
  } else {
    auto made = std::make_unique<FusedFlight>();
    COLL_ASSIGN(made->over, words_.next());
    COLL_ASSIGN(made->abort, words_.next());
    flight = all_.emplace_back(std::move(made)).get();
  }
  flight->over.set(0);
  flight->abort.set(0);
  flight->program = &program;
  flight->run = &run;
  flight->number = ++taken_;
  flight->vain = 0;
  return flight;
}

void FusedFlights::release(FusedFlight& flight) {
  flight.program = nullptr;
  flight.run = nullptr;
}

FusedFlight* FusedFlights::find(const Run& run) const {
  for (const auto& flight : all_)
    if (flight->run == &run) return flight.get();
  return nullptr;
}

void FusedFlights::abort_up_to(const FusedFlight& flight) const {
  for (const auto& one : all_)
    if (one->end() == 0 && one->number <= flight.number) one->abort.set(1);
}

bool FusedFlights::full() const {
  constexpr std::ptrdiff_t kMost = 64;
  return std::ranges::count_if(all_, [](const auto& flight) { return flight->end() == 0; }) >=
         kMost;
}

bool FusedFlights::all_ended() const {
  return std::ranges::all_of(all_, [](const auto& flight) { return flight->end() != 0; });
}

}  // namespace coll
