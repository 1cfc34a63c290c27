// SPDX-License-Identifier: Apache-2.0
// The emulated devices as a test has them: their faults, their ports, and what was left behind.
#include "emulation/verbs/emulated_verbs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "emulation/verbs/emulated_fabric.hpp"

namespace coll::test {
namespace {

/// Those that can fail.
constexpr std::array kVerbs = {"ibv_get_device_list", "ibv_open_device", "ibv_close_device",
                               "ibv_query_device",    "ibv_query_port",  "ibv_query_gid",
                               "ibv_get_async_event", "ibv_alloc_pd",    "ibv_dealloc_pd",
                               "ibv_reg_mr",          "ibv_dereg_mr",    "ibv_create_comp_channel",
                               "ibv_create_cq",       "ibv_destroy_cq",  "ibv_destroy_comp_channel",
                               "ibv_get_cq_event",    "ibv_poll_cq",     "ibv_req_notify_cq",
                               "ibv_create_qp",       "ibv_modify_qp",   "ibv_query_qp",
                               "ibv_destroy_qp",      "ibv_post_send",   "ibv_post_recv",
                               "ibv_reg_dmabuf_mr"};

std::atomic<EmulatedFabric*> the_fabric{nullptr};

}  // namespace

EmulatedFabric::EmulatedFabric(int count) {
  for (int i = 0; i < count; ++i) {
    EmulatedDevice& made = *devices.emplace_back(std::make_unique<EmulatedDevice>());
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(made.name, sizeof made.name, "emu%d", i);
    std::snprintf(made.dev_name, sizeof made.dev_name, "uverbs%d", i);
    const auto host = static_cast<std::uint8_t>(i + 1);
    made.gids[0] = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, host}};
    made.gids[1] = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, host}};
  }
}

EmulatedCall::EmulatedCall(std::string_view verb) : fabric_(the_fabric.load()) {
  if (fabric_ == nullptr) emulation_abort("a verb is called while no EmulatedVerbs lives");
  lock_ = std::unique_lock(fabric_->mutex);
  std::vector<EmulatedFault>& faults = fabric_->faults;
  std::vector<std::function<void()>> actions;
  for (auto one = faults.begin(); one != faults.end();) {
    if (one->verb != verb || one->left-- > 0) {
      ++one;
      continue;
    }
    if (one->action) actions.push_back(std::move(one->action));
    if (one->error != 0) error_ = one->error;
    one = faults.erase(one);
  }
  if (actions.empty()) return;
  lock_.unlock();
  for (const auto& action : actions) action();
  lock_.lock();
}

EmulatedVerbs::EmulatedVerbs(int devices) : fabric_(std::make_unique<EmulatedFabric>(devices)) {
  if (the_fabric.exchange(fabric_.get()) != nullptr)
    emulation_abort("a second EmulatedVerbs is made while one lives");
}

EmulatedVerbs::~EmulatedVerbs() {
  the_fabric = nullptr;
  EXPECT_EQ(fabric_->left(), "") << "is left of what the emulated verbs made";
}

const VerbsTable& EmulatedVerbs::table() const {
  static const VerbsTable table = [] {
    VerbsTable made;
    set_device_verbs(made);
    set_queue_verbs(made);
    return made;
  }();
  return table;
}

std::vector<RdmaRail> EmulatedVerbs::rails(std::initializer_list<int> devices) const {
  const std::lock_guard lock(fabric_->mutex);
  std::vector<RdmaRail> made;
  for (const int number : devices) {
    const EmulatedDevice& device = fabric_->device(number);
    RdmaPort port;
    port.device = device.name;
    port.active = device.up;
    port.ethernet = true;
    port.gigabits_per_s = 100;
    for (std::size_t i = 0; i < device.gids.size(); ++i) {
      RdmaGid& gid = port.gids.emplace_back();
      gid.index = static_cast<int>(i);
      gid.type = RdmaGid::Type::roce_v2;
      gid.interface = "eth" + port.device;
      std::memcpy(gid.bytes.data(), device.gids[i].raw, gid.bytes.size());
    }
    RdmaGid gid = port.gids.back();
    made.push_back({std::move(port), std::move(gid), true, true});
  }
  return made;
}

void EmulatedVerbs::fail(const std::string& verb, int error, int after) {
  if (std::ranges::find(kVerbs, verb) == kVerbs.end())
    emulation_abort("no verb \"" + verb + "\" can be made to fail");
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.push_back({verb, after, error, nullptr});
}

void EmulatedVerbs::before(const std::string& verb, std::function<void()> action, int after) {
  if (std::ranges::find(kVerbs, verb) == kVerbs.end())
    emulation_abort("nothing can be done before \"" + verb + "\"");
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.push_back({verb, after, 0, std::move(action)});
}

int EmulatedVerbs::unmet() const {
  const std::lock_guard lock(fabric_->mutex);
  return static_cast<int>(fabric_->faults.size());
}

void EmulatedVerbs::forget_unmet() {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->faults.clear();
}

void EmulatedVerbs::set_most_bytes(int device, std::uint32_t bytes) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->device(device).most_bytes = bytes;
}

void EmulatedVerbs::set_port(int device, bool up) {
  const std::lock_guard lock(fabric_->mutex);
  EmulatedDevice& one = fabric_->device(device);
  if (one.up == up) return;
  one.up = up;
  fabric_->tell(one, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  if (up) fabric_->go_on(one);
}

void EmulatedVerbs::hold(int device) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->device(device).held = true;
}

void EmulatedVerbs::go_on(int device) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->device(device).held = false;
  fabric_->go_on(fabric_->device(device));
}

void EmulatedVerbs::exceed_retries(int device) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->exceed_retries(fabric_->device(device));
}

void EmulatedVerbs::lose_ack(std::uint32_t pair) {
  const std::lock_guard lock(fabric_->mutex);
  const auto found = fabric_->pairs.find(pair);
  if (found == fabric_->pairs.end())
    emulation_abort("there is no queue pair " + std::to_string(pair));
  found->second->loses_ack = true;
}

EmulatedVerbs::Counts EmulatedVerbs::counts() const {
  const std::lock_guard lock(fabric_->mutex);
  return fabric_->counts;
}

std::vector<int> EmulatedVerbs::access_to(const std::byte* place) const {
  const std::lock_guard lock(fabric_->mutex);
  std::vector<int> found;
  for (const auto& [key, region] : fabric_->regions)
    if (region->holds(reinterpret_cast<std::uint64_t>(place), 1)) found.push_back(region->access);
  return found;
}

std::vector<std::uint32_t> EmulatedVerbs::pairs() const {
  const std::lock_guard lock(fabric_->mutex);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, pair] : fabric_->pairs) numbers.push_back(number);
  return numbers;
}

}  // namespace coll::test
