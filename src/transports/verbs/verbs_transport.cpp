// SPDX-License-Identifier: Apache-2.0
// Devices opened, and connections over them.
#include "transports/verbs/verbs_transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/knobs.hpp"
#include "base/log.hpp"
#include "sys/verbs/near_rails.hpp"

namespace coll {
namespace {

/// Of the port's own table, as COLL_VERBS asks.
Status choose_gid(RdmaRail& rail, int index) {
  if (index < 0) return {};
  const auto found = std::ranges::find(rail.port.gids, index, &RdmaGid::index);
  if (found == rail.port.gids.end())
    return failed(
        Code::invalid_argument,
        "COLL_VERBS: " + rail.port.name() + " has no GID of index " + std::to_string(index),
        "coll-info lists them");
  rail.gid = *found;
  return {};
}

}  // namespace

Result<std::unique_ptr<Transport>> make_verbs_transport(const TransportSpec& spec) {
  // The ports first: without any, nothing is loaded.
  COLL_ASSIGN(std::vector<RdmaRail> rails, rdma_rails(rdma_ports(), spec.interface));
  const std::string why = mark_near(rails, rank_seat(spec.numa_node, spec.gpu), spec.interface);
  if (rails.size() > 1 && log_enabled(LogLevel::info)) log(LogLevel::info, "verbs: " + why);
  COLL_ASSIGN(const VerbsOptions options, VerbsOptions::parse(knobs().verbs));
  const Result<VerbsTable>& verbs = load_verbs();
  if (!verbs.ok()) return verbs.status();
  return VerbsTransport::make(spec, *verbs, options, rails);
}

Result<std::unique_ptr<Transport>> VerbsTransport::make(const TransportSpec& spec,
                                                        const VerbsTable& verbs,
                                                        const VerbsOptions& options,
                                                        const std::vector<RdmaRail>& rails) {
  std::unique_ptr<VerbsTransport> made(new VerbsTransport(spec, options));
  for (RdmaRail rail : rails) {
    COLL_TRY(choose_gid(rail, options.gid));
    COLL_TRY(made->add_rail(verbs, rail));
  }
  COLL_TRY(made->check_length(made->limits().slot_bytes));
  COLL_TRY(made->try_memory());
  COLL_ASSIGN(made->progress_, VerbsProgress::make(made->devices_));
  COLL_ASSIGN(made->dial_, Dial::open(spec, {"verbs", kVerbsWireVersion}));
  made->descriptor_.pairs = options.pairs;
  for (const VerbsRail& rail : made->rails_)
    made->descriptor_.rails.push_back(
        {rail.rail.port.ethernet, rail.rail.gid.bytes, rail.rail.near});
  made->descriptor_.dial = made->dial_->descriptor();
  made->text_ = made->descriptor_.text();
  return std::unique_ptr<Transport>(std::move(made));
}

Status VerbsTransport::add_rail(const VerbsTable& verbs, const RdmaRail& rail) {
  const auto is_its = [&](const auto& device) { return device->name() == rail.port.device; };
  auto found = std::ranges::find_if(devices_, is_its);
  if (found == devices_.end()) {
    COLL_ASSIGN(std::unique_ptr<VerbsDevice> device, VerbsDevice::open(verbs, rail.port.device));
    devices_.push_back(std::move(device));
    found = devices_.end() - 1;
  }
  if (rail.beside_gpu) (*found)->set_beside_gpu();
  COLL_ASSIGN(const ibv_port_attr port, (*found)->port(rail.port.number));
  rails_.push_back(
      {rail, found->get(), static_cast<std::uint8_t>(port.active_mtu), port.max_msg_sz});
  return {};
}

/// A port that takes shorter messages only would break its pairs at the first long one.
Status VerbsTransport::check_length(std::size_t slot_bytes) const {
  const std::size_t longest = sizeof(VerbsHeader) + slot_bytes;
  for (const VerbsRail& one : rails_)
    if (one.most_bytes != 0 && one.most_bytes < longest) {
      const std::string name = one.rail.port.name();
      return failed(Code::unsupported,
                    name + " takes messages of up to " + std::to_string(one.most_bytes) +
                        " bytes, and those of a connection have up to " + std::to_string(longest),
                    "leave the port out: COLL_INTERFACE=^" + name);
    }
  return {};
}

/// A rank that may lock no memory had better say so before the ranks have chosen their paths.
Status VerbsTransport::try_memory() const {
  VerbsSlots slots;
  COLL_TRY(slots.allocate(limits().credits, limits().slot_bytes));
  return slots.register_at(*devices_.front());
}

Transport::Limits VerbsTransport::limits() const {
  double gigabits = 0;
  for (const VerbsRail& rail : rails_)
    if (rail.rail.near) gigabits += rail.rail.port.gigabits_per_s;
  // Of these slots one is on the wire while the peer empties another one.
  return {.slot_bytes = 256 << 10,
          .slice_bytes = 128 << 10,
          .credits = 4,
          .gbytes_per_s = gigabits / 8};
}

Status VerbsTransport::accepts(std::string_view peer_descriptor) const {
  COLL_ASSIGN(const VerbsDescriptor peer, VerbsDescriptor::parse(peer_descriptor));
  COLL_TRY(verbs_accepts(descriptor_, peer));
  return dial_->accepts(peer.dial);
}

PathCapabilities VerbsTransport::path(std::string_view /*peer_descriptor*/) const {
  return {.medium = PathMedium::rdma};
}

Result<std::unique_ptr<Connection>> VerbsTransport::open(const ConnectionSpec& spec,
                                                         std::string_view peer_descriptor) {
  COLL_TRY(check_connection(spec_, spec));
  COLL_TRY(check_length(spec.slot_bytes));
  COLL_ASSIGN(const VerbsDescriptor peer, VerbsDescriptor::parse(peer_descriptor));
  COLL_TRY(verbs_accepts(descriptor_, peer));
  // Completions of connections that are gone may take the room that new ones are promised.
  progress_->take_completions();
  auto connection =
      std::make_unique<VerbsConnection>(spec, options_, waiting_, *progress_, regions_);
  const VerbsShape shape = verbs_shape(descriptor_, peer);
  std::vector<VerbsRail>& rails = chosen_[shape.rails];
  if (rails.empty())
    for (const std::size_t number : shape.rails) rails.push_back(rails_[number]);
  COLL_ASSIGN(const VerbsMeeting meeting, connection->prepare(rails, shape.pairs));
  DialOffer offer;
  static_assert(sizeof meeting <= DialOffer::kBytes);
  std::memcpy(offer.bytes.data(), &meeting, sizeof meeting);
  COLL_ASSIGN(std::unique_ptr<DialledEnd> dialled, dial_->begin(spec, offer, peer.dial));
  connection->set_dialled(std::move(dialled));
  return std::unique_ptr<Connection>(std::move(connection));
}

void VerbsTransport::poll() {
  dial_->poll();
  const VerbsConnection::Waiting waiting = waiting_;  // those that settle take themselves out
  for (VerbsConnection* one : waiting) one->poll_dialled();
}

}  // namespace coll
