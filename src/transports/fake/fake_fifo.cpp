// SPDX-License-Identifier: Apache-2.0
// How a FIFO follows its script.
#include "transports/fake/fake_fifo.hpp"

#include <algorithm>

namespace coll {

FakeFifo::FakeFifo(const FakeScript& script, Rank from, Rank to, const ConnectionSpec& spec)
    : script_(script), ring_(spec.credits) {
  for (const FakeFault& fault : script.faults)
    if (fault.from == from && fault.to == to && fault.lane == spec.lane) faults_.push_back(fault);
  // Both ends draw for themselves, so what they get does not depend on who runs first.
  std::seed_seq seed{static_cast<std::uint32_t>(script.seed),
                     static_cast<std::uint32_t>(script.seed >> 32),
                     static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), spec.lane};
  sender_random_.seed(seed);
  receiver_random_.seed(sender_random_());
  for (Message& message : ring_) message.payload.resize(spec.slot_bytes);
  plan_send();
  plan_receive();
}

void FakeFifo::plan_send() {
  send_refusals_ = draw(sender_random_, script_.max_refusals);
  const auto most = static_cast<std::uint32_t>(ring_.size());
  usable_ = script_.vary_credits ? 1 + draw(sender_random_, most - 1) : most;
}

void FakeFifo::plan_receive() {
  receive_refusals_ = draw(receiver_random_, script_.max_refusals);
}

FakeFifo::Message* FakeFifo::acquire() {
  acquired_ = acquired_ || committed_ - consumed_ < usable_;
  return acquired_ ? &at(committed_) : nullptr;
}

bool FakeFifo::commit(std::size_t bytes, std::uint64_t digest, const std::byte* lent, bool kept) {
  Message& message = at(committed_);
  message.bytes = bytes;
  message.digest = digest;
  message.lent = lent;
  message.kept = kept;
  message.leaves_in = draw(sender_random_, script_.max_delay);
  message.arrives_in = draw(sender_random_, script_.max_delay);
  for (const FakeFault& fault : faults_) {
    if (fault.message != committed_) continue;
    if (fault.kind == FakeFault::Kind::cut) return false;
    if (fault.kind == FakeFault::Kind::digest) message.digest ^= 1;
    if (fault.kind == FakeFault::Kind::length) ++message.bytes;
  }
  land(message);
  acquired_ = false;
  ++committed_;
  if (lent != nullptr) (kept ? kept_ : lent_) = committed_;
  plan_send();
  settle();
  return true;
}

bool FakeFifo::will_land(std::size_t bytes) const {
  const auto found = expected_.find(committed_);
  return found != expected_.end() && found->second.bytes == bytes;
}

/// At once, whenever the receiver looks: so a step that still needed what lay there is found out.
void FakeFifo::land(Message& message) {
  message.landed = nullptr;
  if (!will_land(message.bytes)) return;
  message.landed = expected_.at(committed_).into;
  std::copy_n(message.sent_from(), message.bytes, message.landed);
}

/// What lies there is undefined from now on, if no part of it is still to be sent.
void FakeFifo::expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool part_first) {
  if (number < told_ || number < committed_ || bytes < script_.least_landing) return;
  told_ = number + 1;
  if (!part_first) std::fill_n(into, bytes, std::byte{0xbd});
  expected_[number] = {into, bytes};
}

bool FakeFifo::cancel() {
  const bool none = expected_.empty();
  expected_.clear();
  return none;
}

/// Lets go what need not wait (any more), in order.
void FakeFifo::settle() {
  while (left_ < committed_ && at(left_).leaves_in == 0) ++left_;
  while (arrived_ < left_ && at(arrived_).arrives_in == 0) ++arrived_;
}

bool FakeFifo::flushed(Mark mark) const {
  for (std::uint64_t unread = consumed_; unread < mark; ++unread) {
    const Message& message = ring_[unread % ring_.size()];
    if (message.lent != nullptr && !message.kept) return false;
  }
  return left_ >= mark;
}

void FakeFifo::progress_sender() {
  if (left_ < committed_) --at(left_).leaves_in;
  settle();
}

void FakeFifo::progress_receiver() {
  if (arrived_ < left_) --at(arrived_).arrives_in;
  settle();
}

FakeFifo::Message* FakeFifo::next() {
  return consumed_ < arrived_ ? &at(consumed_) : nullptr;
}

void FakeFifo::release() {
  expected_.erase(consumed_++);
  plan_receive();
}

}  // namespace coll
