// SPDX-License-Identifier: Apache-2.0
// transports/shm/: ranks of one host, through shared memory. This file: a connection's begin and
// end; what runs per message is in the header.
#include "transports/shm/shm_connection.hpp"

#include "transports/shm/shm_transport.hpp"

namespace coll {
namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::size_t ShmLayout::segment_bytes() const {
  return round_up(round_up(2 * ShmFifo::control_bytes(credits), kPage) + 2 * credits * slot_bytes,
                  kPage);
}

ShmFifo ShmLayout::fifo(std::byte* segment, int direction) const {
  const auto index = static_cast<std::size_t>(direction);
  const std::size_t control = ShmFifo::control_bytes(credits);
  std::byte* consumed = segment + index * control;
  std::byte* slots = segment + round_up(2 * control, kPage) + index * credits * slot_bytes;
  return {.consumed = reinterpret_cast<ShmConsumed*>(consumed),
          .cells = reinterpret_cast<ShmCell*>(consumed + sizeof(ShmConsumed)),
          .slots = slots,
          .slot_bytes = slot_bytes,
          .credits = credits};
}

ShmConnection::~ShmConnection() {
  if (transport_ != nullptr) transport_->forget(this);
}

void ShmConnection::start(MemorySegment segment, const ShmLayout& layout, bool dialled) {
  segment_ = std::move(segment);
  sender_ = ShmSender(layout.fifo(segment_.data(), dialled ? 0 : 1));
  receiver_ = ShmReceiver(layout.fifo(segment_.data(), dialled ? 1 : 0));
  transport_ = nullptr;
  ready_ = usable_ = true;
}

void ShmConnection::give_up(const Status& failure) {
  fail(failure);
  transport_ = nullptr;
}

void ShmConnection::fail_credits() {
  fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) + " returned credits it never had",
              "its process has overwritten the shared memory of this connection"));
  usable_ = false;
}

void ShmConnection::fail_message(std::size_t bytes, std::uint64_t digest) {
  fail(message_mismatch(peer(), bytes, digest, receiver_.bytes(), receiver_.digest()));
  usable_ = false;
}

}  // namespace coll
