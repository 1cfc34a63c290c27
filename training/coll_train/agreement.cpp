// SPDX-License-Identifier: Apache-2.0
// Gathers codes and texts of all ranks.
#include "agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace training {

std::string first_text(collectives::Communicator& world, const std::string& own) {
  constexpr std::size_t kMost = 512;
  std::vector<std::int8_t> mine(kMost), all(kMost * static_cast<std::size_t>(world.size()));
  std::copy_n(own.begin(), std::min(own.size(), kMost - 1), mine.begin());
  value_of(world.all_gather<std::int8_t>(mine, all));
  for (std::size_t at = 0; at < all.size(); at += kMost)
    if (all[at] != 0) return reinterpret_cast<const char*>(&all[at]);
  return "";
}

void fail_together(collectives::Communicator& world, const std::optional<Failure>& own) {
  const auto rank = static_cast<std::size_t>(world.rank());
  const std::int32_t code = own ? own->code() : 0;
  std::vector<std::int32_t> codes(static_cast<std::size_t>(world.size()));
  value_of(world.all_gather<std::int32_t>({&code, 1}, codes));
  const auto first = std::ranges::find_if(codes, [](std::int32_t c) { return c != 0; });
  if (first == codes.end()) return;
  if (codes.begin() + static_cast<std::ptrdiff_t>(rank) != first) throw SharedFailure("", *first);
  const bool all = std::ranges::count(codes, 0) == 0;
  throw SharedFailure(all ? own->what() : fmt::format("rank {}: {}", rank, own->what()), code);
}

}  // namespace training
