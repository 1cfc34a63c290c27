// SPDX-License-Identifier: Apache-2.0
// The list of what is offered.
#include "sys/offered_objects.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "sys/fork_safe_mutex.hpp"

namespace coll {
namespace {

using Offers = std::vector<std::pair<std::uint64_t, std::weak_ptr<void>>>;

ForkSafeMutex g_offers_mutex;  // guards what follows
Offers* g_offers = nullptr;    // stays for good
std::uint64_t g_last_offer = 0;

}  // namespace

OfferedObject::OfferedObject(std::weak_ptr<void> object) {
  const std::lock_guard lock(g_offers_mutex);
  if (g_offers == nullptr) g_offers = new Offers();
  number_ = ++g_last_offer;
  g_offers->emplace_back(number_, std::move(object));
}

OfferedObject::~OfferedObject() {
  const std::lock_guard lock(g_offers_mutex);
  std::erase_if(*g_offers, [this](const auto& offer) { return offer.first == number_; });
}

std::shared_ptr<void> OfferedObject::find(std::uint64_t number) {
  const std::lock_guard lock(g_offers_mutex);
  if (g_offers == nullptr) return nullptr;
  const auto found = std::ranges::find(*g_offers, number, &Offers::value_type::first);
  return found == g_offers->end() ? nullptr : found->second.lock();
}

}  // namespace coll
