// SPDX-License-Identifier: Apache-2.0
// How the ends of a scripted network find each other.
#include "transports/fake/fake_network.hpp"

#include <algorithm>

namespace coll {

FakeLink::FakeLink(const FakeScript& script, Rank low, Rank high, const ConnectionSpec& spec)
    : slot_bytes(spec.slot_bytes),
      credits(spec.credits),
      fifos{{script, low, high, spec}, {script, high, low, spec}} {}

std::uint64_t FakeNetwork::enter() {
  const std::lock_guard lock(mutex_);
  transports_.insert(++last_);
  return last_;
}

void FakeNetwork::leave(std::uint64_t transport) {
  const std::lock_guard lock(mutex_);
  transports_.erase(transport);
}

bool FakeNetwork::has(std::uint64_t transport) {
  const std::lock_guard lock(mutex_);
  return transports_.contains(transport);
}

std::shared_ptr<FakeLink> FakeNetwork::join(Rank self, std::uint64_t own, std::uint64_t peers,
                                            const ConnectionSpec& spec) {
  const auto [low, high] = std::minmax(self, spec.peer);
  const int side = self == low ? 0 : 1;
  const std::lock_guard lock(mutex_);
  const auto [first, second] = std::minmax(own, peers);
  const Key key{first, second, spec.lane};
  auto& link = half_open_[key];
  if (!link) link = std::make_shared<FakeLink>(script_, low, high, spec);
  const std::shared_ptr<FakeLink> found = link;
  const std::lock_guard link_lock(found->mutex);
  COLL_CHECK(!found->joined[side], "a connection is opened twice before it is ready");
  found->joined[side] = true;
  found->mismatched = spec.slot_bytes != found->slot_bytes || spec.credits != found->credits;
  if (found->joined[1 - side]) half_open_.erase(key);
  return found;
}

void FakeNetwork::leave(FakeLink& link, int side) {
  const std::lock_guard lock(mutex_);
  std::erase_if(half_open_, [&](const auto& entry) { return entry.second.get() == &link; });
  const std::lock_guard link_lock(link.mutex);
  link.closed[side] = link.stopped[side] = true;
}

}  // namespace coll
