// SPDX-License-Identifier: Apache-2.0
// Finds out whether two devices reach each other, and then watches that they are in the same call.
#include "transports/cuda_ipc/cuda_ipc_connection.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/log.hpp"
#include "sys/kept_for_good.hpp"

namespace coll {
namespace {

constexpr std::uint64_t kHelloDigest = 0x6375646120697063;    // "cuda ipc"
constexpr std::uint64_t kMemoryDigest = 0x63756461206d656d;   // "cuda mem"
constexpr std::uint64_t kVerdictDigest = 0x7665726469637421;  // "verdict!"
constexpr std::uint64_t kOfferDigest = 0x6f666665722e2e2e;    // "offer..."
constexpr std::uint64_t kFoundDigest = 0x666f756e642e2e2e;    // "found..."

template <class T>
std::byte* place_of_message(T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  return reinterpret_cast<std::byte*>(&message);
}

}  // namespace

void CudaIpcConnection::poll() {
  if (ready()) return;
  while (step()) {
  }
  if (!ready() && usable() && inner().ready()) {
    if (ProgressSource* const source = progress_source()) source->progress();
  }
}

/// True: it has reached the next stage, which can be tried at once.
bool CudaIpcConnection::step() {
  if (!usable()) return false;
  switch (stage_) {
    case Stage::begin:
      if (!inner().ready()) return false;
      introduce();
      break;
    case Stage::send_hello:
      if (!send(place_of_message(own_), sizeof own_, kHelloDigest)) return false;
      break;
    case Stage::receive_hello: {
      CudaIpcHello peer;
      if (!receive(place_of_message(peer), sizeof peer, kHelloDigest)) return false;
      prepare(peer);
      break;
    }
    case Stage::send_memory:
      if (!send(place_of_message(own_), sizeof own_, kMemoryDigest)) return false;
      break;
    case Stage::receive_memory: {
      CudaIpcHello peer;
      if (!receive(place_of_message(peer), sizeof peer, kMemoryDigest)) return false;
      judge(peer);
      break;
    }
    case Stage::send_verdict:
      if (!send(place_of_message(verdict_), sizeof verdict_, kVerdictDigest)) return false;
      break;
    case Stage::receive_verdict: {
      CudaIpcText peers;
      if (!receive(place_of_message(peers), sizeof peers, kVerdictDigest)) return false;
      conclude(peers);
      stage_ = offers_ == 0 ? Stage::flush : Stage::send_offer;
      return true;
    }
    case Stage::send_offer:
      offer_made_ = end_->offer(offer_);
      if (!send(place_of_message(offer_made_), sizeof offer_made_, kOfferDigest)) return false;
      break;
    case Stage::receive_offer: {
      CudaIpcOffer peers;
      if (!receive(place_of_message(peers), sizeof peers, kOfferDigest)) return false;
      found_ = reach_.open_offer(context_, peers);
      break;
    }
    case Stage::send_found:
      if (!send(place_of_message(found_), sizeof found_, kFoundDigest)) return false;
      break;
    case Stage::receive_found: {
      CudaAddress there = 0;
      if (!receive(place_of_message(there), sizeof there, kFoundDigest)) return false;
      end_->note_found(offer_, there);
      if (++offer_ < offers_) {
        stage_ = Stage::send_offer;
        return true;
      }
      tell_kernels();
      break;
    }
    case Stage::flush:
      if (!flushed(mark())) return false;
      break;
    case Stage::known:
      return false;
  }
  if (stage_ != Stage::known) stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
  return true;
}

/// Says who this end is. If that fails, the peer has to hear of it.
void CudaIpcConnection::introduce() {
  if (slot_bytes() < sizeof(CudaIpcHello)) {  // the peer knows that too
    refusal_ = "messages of " + std::to_string(slot_bytes()) + " bytes are too short to connect";
    stage_ = Stage::known;
    return;
  }
  own_.process = memory_proof();
  own_.credits = credits_;
  own_.failure = CudaIpcText::of(CudaIpcReach::introduce(context_, own_));
}

/// Makes this end, if there is any hope that both reach each other.
void CudaIpcConnection::prepare(const CudaIpcHello& peer) {
  if (!own_.failure.text().empty() || !peer.failure.text().empty()) return;
  const Status made = [&]() -> Status {
    COLL_TRY(CudaIpcReach::may_open(own_, peer));
    end_ = std::make_shared<CudaIpcEnd>();
    COLL_TRY(end_->make(context_, slot_bytes(), credits_));
    if (for_kernels_ && !is_same(own_.process, peer.process)) end_->will_offer(own_);
    return end_->describe(own_);
  }();
  own_.failure = CudaIpcText::of(made);
  if (!made.ok()) return;
  offered_end_.emplace(end_);
  own_.offered = offered_end_->number();
}

/// Tries to reach the peer's end.
void CudaIpcConnection::judge(const CudaIpcHello& peer) {
  verdict_ = own_.failure;
  if (verdict_.text().empty()) verdict_ = peer.failure;
  if (!verdict_.text().empty()) return;
  verdict_ = CudaIpcText::of(reach_.open(context_, own_, peer));
  offers_ = std::max(own_.offers, peer.offers);
  if (for_kernels_ && is_same(own_.process, peer.process))
    end_->note_same_process(own_.ordinal == peer.ordinal);
}

/// It works where both ends say so.
void CudaIpcConnection::conclude(const CudaIpcText& verdict) {
  refusal_ = verdict_.text();
  if (refusal_.empty()) refusal_ = verdict.text();
  offered_end_.reset();
  if (!refusal_.empty()) {  // what it has is freed with it
    offers_ = 0;
    if (end_ != nullptr) end_->drop_offers();
    return;
  }
  end_->close_file();
  const auto row = [this](CudaAddress words, int index) {
    return words + CudaIpcEnd::row(index, credits_);
  };
  DeviceRing sending{.slots = reach_.ring,
                     .stride = slot_bytes(),
                     .credits = credits_,
                     .awaited = row(end_->words_address(), CudaIpcEnd::kMaySend),
                     .signalled = row(reach_.words, CudaIpcEnd::kMayReceive),
                     .awaited_stride = DeviceWords::kStride,
                     .signalled_stride = DeviceWords::kStride};
  DeviceRing receiving = sending;
  receiving.slots = end_->ring();
  receiving.awaited = row(end_->words_address(), CudaIpcEnd::kMayReceive);
  receiving.signalled = row(reach_.words, CudaIpcEnd::kMaySend);
  const auto own = CudaIpcEnd::kernel_parts(end_->ring(), slot_bytes(), credits_);
  const auto peers = CudaIpcEnd::kernel_parts(reach_.ring, slot_bytes(), credits_);
  sending.kernels = kernel_memory::ring_of(true, own.sending, peers.receiving, credits_);
  receiving.kernels = kernel_memory::ring_of(false, peers.sending, own.receiving, credits_);
  set_rings(sending, end_->words(CudaIpcEnd::kMaySend), receiving,
            end_->words(CudaIpcEnd::kMayReceive));
  set_buffer_bytes(end_->ring_bytes() + end_->words_bytes());
  if (offers_ == 0) tell_kernels();
}

/// If that fails, nothing is lent: all entries are 0, or the device has failed, and all calls do.
void CudaIpcConnection::tell_kernels() {
  const Status told = end_->tell_kernels(slot_bytes());
  if (!told.ok()) log(LogLevel::warn, "memory of a GPU is not lent: " + told.text());
}

void CudaIpcConnection::will_send(std::uint32_t /*slot*/, std::size_t /*bytes*/,
                                  std::uint64_t digest) {
  if (out_.note(digest)) messages_.announce_sending();
}

void CudaIpcConnection::will_receive(std::uint32_t /*slot*/, std::size_t /*bytes*/,
                                     std::uint64_t digest) {
  if (in_.note(digest)) messages_.announce_receiving();
}

bool CudaIpcConnection::progress() {
  bool moved = false;
  while (!out_.news.empty() && send(nullptr, 0, out_.news.front())) {
    out_.news.pop();
    messages_.sent(mark());
    moved = true;
  }
  while (!in_.news.empty() && receive(nullptr, 0, in_.news.front())) {
    in_.news.pop();
    messages_.received();
    moved = true;
  }
  moved |= messages_.flush([this](Mark behind) { return flushed(behind); });
  return moved;
}

void CudaIpcConnection::keep_for_device() {
  keep_for_good(end_);
  keep_for_good(std::make_shared<CudaIpcReach>(std::move(reach_)));
}

void CudaIpcConnection::release_all() {
  if (!reaches()) return;
  end_->words(CudaIpcEnd::kMaySend).set_all();
  end_->words(CudaIpcEnd::kMayReceive).set_all();
}

}  // namespace coll
