// SPDX-License-Identifier: Apache-2.0
// What runs of fused kernels have from their begin to their end.
#include "executor/device/fused/fused_flights.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "executor/device/fused/fused_arguments.hpp"

namespace coll {

FusedFlights::~FusedFlights() {
  if (!all_ended()) words_.abandon();
}

Status FusedFlights::open() {
  constexpr std::size_t kMost = 64;
  while (all_.size() < kMost) {
    auto made = std::make_unique<FusedFlight>();
    COLL_ASSIGN(made->over, words_.next());
    COLL_ASSIGN(made->abort, words_.next());
    made->over.set(fused::FusedArguments::kDone);  // no kernel has it
    all_.push_back(std::move(made));
  }
  return {};
}

FusedFlight& FusedFlights::take(FusedProgram& program, const Run& run) {
  FusedFlight* const flight = next_free();
  COLL_CHECK(flight != nullptr, "who takes a flight has asked whether all are taken");
  flight->over.set(0);
  flight->abort.set(0);
  flight->program = &program;
  flight->run = &run;
  flight->number = ++taken_;
  flight->vain = 0;
  return *flight;
}

FusedFlight* FusedFlights::next_free() const {
  for (const auto& flight : all_) {
    // What was abandoned may end later.
    if (flight->program == nullptr && flight->end() != 0) return flight.get();
  }
  return nullptr;
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

bool FusedFlights::all_ended() const {
  return std::ranges::all_of(all_, [](const auto& flight) { return flight->end() != 0; });
}

}  // namespace coll
