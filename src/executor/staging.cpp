// SPDX-License-Identifier: Apache-2.0
// Messages that several peers get are written once.
#include <algorithm>

#include "executor/program.hpp"

namespace coll {

void give_places(Program& program, ScratchPool& pool) {
  const auto stages = [](const StagePlaces& places) { return places.readers > 0; };
  const auto lanes =
      static_cast<std::size_t>(std::count_if(program.places.begin(), program.places.end(), stages));
  if (lanes == 0) return;
  const std::size_t stride = (std::size_t{program.shape.slice_bytes} + 63) / 64 * 64;
  const std::uint32_t count = program.shape.credits + 1;
  program.staging = pool.take(lanes * count * stride, ScratchUse::staging);
  std::byte* begin = program.staging.data();
  if (begin == nullptr) return;
  for (StagePlaces& places : program.places) {
    if (!stages(places)) continue;
    places.begin = begin;
    places.stride = stride;
    places.count = count;
    places.least = program.shape.least_staged / places.readers;
    begin += count * stride;
  }
}

Program::~Program() {
  const bool all_read =
      std::ranges::all_of(lendings, [](Lending* one) { return one == nullptr || one->all_read(); });
  // Late peers still read what they were sent, so nobody else may get this memory.
  if (!all_read) staging.abandon();
}

}  // namespace coll
