// SPDX-License-Identifier: Apache-2.0
// One end of a connection over the scripted network.
#include "transports/fake/fake_connection.hpp"

#include <algorithm>

#include "transports/fake/fake_transport.hpp"

namespace coll {

FakeConnection::FakeConnection(const ConnectionSpec& spec, FakeTransport* transport,
                               std::shared_ptr<FakeNetwork> network, std::shared_ptr<FakeLink> link,
                               int side)
    : Connection(spec.peer, spec.slot_bytes),
      transport_(transport),
      network_(std::move(network)),
      link_(std::move(link)),
      side_(side),
      lane_(spec.lane) {
  set_buffer_bytes(spec.credits * spec.slot_bytes);
  // Executors must do well with both kinds.
  if (side == 1) set_streamed({.least = 128, .most = slot_bytes()});
  if (side == 0) set_part_bytes(80);
  const FakeScript& script = network_->script();
  const auto own = script.least_loan_to.find(spec.peer);
  set_least_loan(own != script.least_loan_to.end() ? own->second : script.least_loan);
}

FakeConnection::~FakeConnection() {
  if (transport_ != nullptr) transport_->forget(this);
  network_->leave(*link_, side_);
}

bool FakeConnection::connect() {
  const std::lock_guard lock(link_->mutex);
  if (!link_->joined[1 - side_]) return false;
  transport_ = nullptr;
  ready_ = !link_->mismatched;
  if (!ready_)
    fail(failed(Code::mismatch, "rank " + std::to_string(peer()) +
                                    " opened the connection with other slots or credits"));
  return true;
}

// --- sending

FakeFifo::Message* FakeConnection::outgoing(std::size_t bytes) {
  COLL_CHECK(bytes <= slot_bytes(), "a message is longer than a slot");
  if (!status().ok()) return nullptr;
  if (is_lost()) {
    fail_lost();
    return nullptr;
  }
  return out().acquire();
}

std::byte* FakeConnection::acquire(std::size_t bytes) {
  const std::lock_guard lock(link_->mutex);
  FakeFifo::Message* message = outgoing(bytes);
  set_lands(message != nullptr && out().will_land(bytes));
  return message != nullptr ? message->payload.data() : nullptr;
}

void FakeConnection::commit(std::size_t bytes, std::uint64_t digest) {
  const std::lock_guard lock(link_->mutex);
  put(bytes, digest);
}

bool FakeConnection::put(std::size_t bytes, std::uint64_t digest, const std::byte* lent,
                         bool kept) {
  if (out().commit(bytes, digest, lent, kept)) return true;
  link_->cut = true;
  fail_lost();
  return false;
}

bool FakeConnection::send(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  const std::lock_guard lock(link_->mutex);
  FakeFifo::Message* message = outgoing(bytes);
  if (message == nullptr) return false;
  // While refused the first half is through already, later only the second is read: who changes
  // the memory meanwhile is found out.
  const auto copy = [&](std::size_t from, std::size_t to) {
    if (from < to) std::copy(data + from, data + to, message->payload.data() + from);
  };
  if (out().refuses_send()) {
    if (!half_sent_) copy(0, bytes / 2);
    half_sent_ = true;
    return false;
  }
  copy(half_sent_ ? bytes / 2 : 0, bytes);
  half_sent_ = false;
  return put(bytes, digest);
}

bool FakeConnection::lends(const std::byte* data, std::size_t bytes, Fetch /*fetch*/) {
  const std::size_t window = network_->script().loan_window;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (network_->script().serves_gpus) return true;
  return bytes >= least_loan() && (window == 0 || begin / window == (begin + bytes - 1) / window);
}

bool FakeConnection::lend(const std::byte* data, std::size_t bytes, std::uint64_t digest,
                          bool kept) {
  COLL_CHECK(data != nullptr && lends(data, bytes, Fetch::always),
             "a message is lent that may not be");
  const std::lock_guard lock(link_->mutex);
  if (outgoing(bytes) == nullptr || !put(bytes, digest, data, kept)) return false;
  network_->count_loan();
  return true;
}

bool FakeConnection::lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  return lend(data, bytes, digest, false);
}

bool FakeConnection::lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  return lend(data, bytes, digest, true);
}

Mark FakeConnection::mark() const {
  const std::lock_guard lock(link_->mutex);
  return link_->fifos[side_].committed();
}

bool FakeConnection::flushed(Mark mark) {
  const std::lock_guard lock(link_->mutex);
  return out().flushed(mark);
}

bool FakeConnection::caught_up() {
  const std::lock_guard lock(link_->mutex);
  return out().caught_up();
}

bool FakeConnection::all_read() {
  const std::lock_guard lock(link_->mutex);
  return out().caught_up() || link_->stopped[1 - side_];
}

void FakeConnection::withdraw() {
  const std::lock_guard lock(link_->mutex);
  out().withdraw();
}

// --- receiving

FakeFifo::Message* FakeConnection::incoming(std::size_t bytes, std::uint64_t digest) {
  COLL_CHECK(bytes <= slot_bytes(), "a message is longer than a slot");
  if (!status().ok()) return nullptr;
  if (is_lost() && in().drained()) {
    fail_lost();
    return nullptr;
  }
  FakeFifo::Message* message = in().next();
  if (message == nullptr) return nullptr;
  if (in().is_withdrawn(*message)) {
    fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) + " took back what it had lent"));
    return nullptr;
  }
  if (message->bytes == bytes && message->digest == digest) return message;
  fail(message_mismatch(peer(), bytes, digest, message->bytes, message->digest));
  return nullptr;
}

const std::byte* FakeConnection::peek(std::size_t bytes, std::uint64_t digest) {
  const std::lock_guard lock(link_->mutex);
  const FakeFifo::Message* message = incoming(bytes, digest);
  return message != nullptr ? message->place() : nullptr;
}

/// In the caller's room, and each over the one before, by turns.
const std::byte* FakeConnection::peek_part(std::size_t begin, std::size_t part, std::size_t bytes,
                                           std::uint64_t digest, std::byte* room) {
  const std::lock_guard lock(link_->mutex);
  const FakeFifo::Message* message = incoming(bytes, digest);
  if (message == nullptr) return nullptr;
  const std::byte* const from = message->place() + begin;
  const bool has_room = room != nullptr && room != from;
  if (in().refuses_receive()) {
    if (has_room) std::fill_n(room, part, std::byte{0xbd});  // undefined meanwhile
    return nullptr;
  }
  in().pass_part();
  if (has_room && begin / part % 2 == 0) return std::copy_n(from, part, room), room;
  part_.assign(from, from + part);
  return part_.data();
}

bool FakeConnection::intact() {
  const std::lock_guard lock(link_->mutex);
  const FakeFifo::Message* message = in().next();
  return message != nullptr && incoming(message->bytes, message->digest) != nullptr;
}

void FakeConnection::release() {
  const std::lock_guard lock(link_->mutex);
  in().release();
}

bool FakeConnection::receive(std::byte* into, std::size_t bytes, std::uint64_t digest) {
  const std::lock_guard lock(link_->mutex);
  const FakeFifo::Message* message = incoming(bytes, digest);
  if (message == nullptr) return false;
  if (in().refuses_receive()) {
    if (message->place() != into) std::fill_n(into, bytes, std::byte{0xbd});  // undefined meanwhile
    return false;
  }
  if (message->place() != into) std::copy_n(message->place(), bytes, into);
  in().release();
  return true;
}

void FakeConnection::stop_reading() {
  const std::lock_guard lock(link_->mutex);
  link_->stopped[side_] = true;
}

// --- landing

std::uint64_t FakeConnection::next() const {
  const std::lock_guard lock(link_->mutex);
  return link_->fifos[1 - side_].consumed();
}

void FakeConnection::expect(std::uint64_t number, std::byte* into, std::size_t bytes,
                            bool part_first) {
  const std::lock_guard lock(link_->mutex);
  if (status().ok()) in().expect(number, into, bytes, part_first);
}

void FakeConnection::cancel() {
  const std::lock_guard lock(link_->mutex);
  if (in().cancel()) return;
  fail(failed(Code::aborted, "a call has failed, and messages were expected in its memory"));
}

// --- state

/// The script holds for both ends, so both have it or neither.
Lending* FakeConnection::lending() {
  return network_->script().least_loan == FakeScript::kNever ? nullptr : this;
}

Landing* FakeConnection::landing() {
  return network_->script().least_landing == FakeScript::kNever ? nullptr : this;
}

void FakeConnection::progress() {
  const std::lock_guard lock(link_->mutex);
  out().progress_sender();
  in().progress_receiver();
  if (is_lost() && in().drained()) fail_lost();
}

void FakeConnection::fail_lost() {
  fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) + " closed its connection"));
}

}  // namespace coll
