// SPDX-License-Identifier: Apache-2.0
// Passes messages between pinned slots and the inner connection.
#include "transports/staging/staging_connection.hpp"

#include <string>

#include "sys/memory/memory_segment.hpp"

namespace coll {
namespace {

constexpr std::size_t kPinnedUnit = 4096;  // slots begin on a page

}  // namespace

DevicePort* StagingConnection::device_port() {
  if (!usable()) return nullptr;
  if (pinned_.address() == 0) {
    if (const Status made = make_slots(); !made.ok()) {
      fail(made.with_context("slots for a GPU"));
      return nullptr;
    }
  }
  return this;
}

/// One block: four rows of words, then the slots to receive into, then those to send from, unless
/// they lie on the device.
Status StagingConnection::make_slots() {
  const std::size_t row = DeviceWords::bytes(credits_);
  const std::size_t words = round_up(4 * row, kPinnedUnit);
  const std::size_t slots = round_up(credits_ * slot_bytes(), kPinnedUnit);
  on_device_ = DeviceSlots::make(lending(), context_, slots);
  const std::size_t bytes = words + (sends_from_device() ? slots : 2 * slots);
  memory_ = SharedArena::own(bytes, ArenaUse::calls);
  if (!memory_)
    return failed(Code::out_of_resources, "no " + std::to_string(bytes) + " bytes to share");
  COLL_ASSIGN(pinned_, CudaPiece::pin(context_, memory_.get(), bytes));
  const auto direction = [&](std::size_t index) {
    std::byte* const rows = memory_.get() + 2 * index * row;
    return Direction{.slots = memory_.get() + words + (1 - index) * slots,
                     .awaited = DeviceWords(rows, credits_),
                     .signalled = DeviceWords(rows + row, credits_)};
  };
  const auto ring = [&](std::size_t index) {
    const CudaAddress rows = pinned_.address() + 2 * index * row;
    return DeviceRing{.slots = pinned_.address() + words + (1 - index) * slots,
                      .stride = slot_bytes(),
                      .credits = credits_,
                      .awaited = rows,
                      .signalled = rows + row,
                      .awaited_stride = DeviceWords::kStride,
                      .signalled_stride = DeviceWords::kStride};
  };
  out_ = direction(0);
  in_ = direction(1);
  out_.awaited.set_all();   // the device may write every slot,
  in_.signalled.set_all();  // and is not reading any
  DeviceRing sending = ring(0);
  if (sends_from_device()) {
    out_.slots = on_device_->begin();
    sending.slots = on_device_->address();
  }
  set_rings(sending, out_.awaited, ring(1), in_.awaited);
  set_buffer_bytes(words + 2 * slots);
  return {};
}

void StagingConnection::will_send(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) {
  to_send_.push({slot, bytes, digest});
  messages_.announce_sending();
}

void StagingConnection::will_receive(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) {
  to_receive_.push({slot, bytes, digest});
  messages_.announce_receiving();
}

bool StagingConnection::progress() {
  bool moved = false;
  // A round of slots at most, as other connections have messages too.
  for (std::uint32_t i = 0; i < credits_ && take_back_loan(); ++i) moved = true;
  for (std::uint32_t i = 0; i < credits_ && send_next(); ++i) moved = true;
  expect_next();
  for (std::uint32_t i = 0; i < credits_ && receive_next(); ++i) moved = true;
  moved |= messages_.flush([this](Mark behind) { return flushed(behind); });
  return moved;
}

/// Sends what the device has put into the slot of the next message.
bool StagingConnection::send_next() {
  if (to_send_.empty() || !usable()) return false;
  const auto [slot, bytes, digest] = to_send_.front();
  if (!out_.signalled.is_set(slot)) return false;
  const std::byte* const data = place(out_, slot);
  Lending* const lender = lending();
  const bool lends = sends_from_device() ? bytes > 0
                                         : lender != nullptr && bytes >= lender->least_loan() &&
                                               lender->lends(data, bytes, Fetch::always);
  if (!(lends ? lender->lend(data, bytes, digest) : send(data, bytes, digest))) return false;
  out_.signalled.clear(slot);
  if (lends) {
    loans_.push({slot, mark()});
  } else {
    out_.awaited.set(slot);
  }
  to_send_.pop();
  messages_.sent(mark());
  return true;
}

/// Gives the slot back to the device that was lent first, if the peer has read it.
bool StagingConnection::take_back_loan() {
  if (loans_.empty() || !flushed(loans_.front().mark)) return false;
  out_.awaited.set(loans_.front().slot);
  loans_.pop();
  return true;
}

/// Takes the slots that the device has freed, for the messages that come next.
void StagingConnection::expect_next() {
  Landing* const lands = landing();
  for (; freed_ < to_receive_.size(); ++freed_) {
    const auto& [slot, bytes, digest] = to_receive_.at(freed_);
    if (!in_.signalled.is_set(slot)) return;
    in_.signalled.clear(slot);
    if (lands != nullptr && !lands->only_computed() && usable())
      lands->expect(lands->next() + freed_, place(in_, slot), bytes);
  }
}

/// Receives the next message into its slot, if the device has freed that.
bool StagingConnection::receive_next() {
  if (freed_ == 0) return false;
  const auto [slot, bytes, digest] = to_receive_.front();
  if (!receive(place(in_, slot), bytes, digest)) return false;
  --freed_;
  in_.awaited.set(slot);
  to_receive_.pop();
  messages_.received();
  return true;
}

void StagingConnection::release_all() {
  withdraw_loans();  // the device may now write any slot
  out_.awaited.set_all();
  in_.awaited.set_all();
}

void StagingConnection::keep_for_device() {
  pinned_.abandon();
  if (on_device_) on_device_->abandon();
  static_cast<void>(memory_.release());
}

void StagingConnection::withdraw_loans() {
  if (Lending* const lending = this->lending()) lending->withdraw();
  loans_.clear();
}

}  // namespace coll
