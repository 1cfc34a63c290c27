// SPDX-License-Identifier: Apache-2.0
// Messages framed, sent, received, staged.
#include "transports/tcp/tcp_connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/copy_bytes.hpp"
#include "sys/machine/core_caches.hpp"
#include "transports/dial/dial_tuning.hpp"

namespace coll {
namespace {

bool is_loss(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT || error == EHOSTUNREACH ||
         error == ENETUNREACH || error == ENETDOWN || error == ECONNABORTED;
}

/// A quarter of a core's own cache holds a part, so that it lies there with what it is combined
/// with, and with what the kernel copies it from. Longer ones gain nothing, and shorter ones cost
/// more system calls. (docs/performance.md, "TCP between two ranks")
std::size_t part_in_cache() {
  return std::clamp<std::size_t>(own_core_caches().own / 4, 64 << 10, 256 << 10);
}

}  // namespace

TcpConnection::TcpConnection(const ConnectionSpec& spec, std::unique_ptr<DialledEnd> end,
                             Waiting& waiting, TcpProgress& progress)
    : Connection(spec.peer, spec.slot_bytes),
      spec_(spec),
      end_(std::move(end)),
      waiting_(waiting),
      progress_(progress) {
  waiting_.push_back(this);
}

TcpConnection::~TcpConnection() {
  std::erase(waiting_, this);
  progress_.remove(*this);
}

// --- connecting

void TcpConnection::poll_dialled() {
  std::optional<Result<Dialled>> dialled = end_->take();
  if (!dialled) return;
  std::erase(waiting_, this);
  Status status = dialled->status();
  if (status.ok()) status = out_.allocate(spec_.credits, spec_.slot_bytes);
  if (status.ok()) status = in_.allocate(spec_.credits, spec_.slot_bytes);
  if (!status.ok()) return fail(status);
  ahead_ = std::make_unique_for_overwrite<std::byte[]>(kAheadBytes);
  set_part_bytes(part_in_cache());
  set_buffer_bytes(2 * spec_.credits * spec_.slot_bytes + kAheadBytes);
  end_.reset();  // with the other ways that were tried
  progress_.add(*this);
  socket_ = std::move((*dialled)->socket);
  remote_ = remote_address(socket_.get());
}

// --- sending

/// The kernel had no room, and has not said that there is some.
bool TcpConnection::awaits_room() {
  if (!no_room_ || !progress_.by_news()) return false;
  progress_.note_vain(vain_round_);
  return true;
}

/// Judges one try to send: true if it moved something.
bool TcpConnection::took(const Moved& moved) {
  no_room_ = false;
  if (moved.bytes > 0) return true;
  if (!moved.would_block()) {
    lost(moved.error);
    return false;
  }
  no_room_ = true;
  progress_.note_vain(vain_round_);
  // The peer may be in the same place: one of us has to make room.
  drain();
  if (ended_) lost(end_error_);
  return false;
}

/// True when the kernel has everything that was committed.
bool TcpConnection::push_slots() {
  while (!out_.empty()) {
    Header header;
    const std::byte* message = out_.front() - sizeof header;
    std::memcpy(&header, message, sizeof header);
    const std::size_t total = sizeof header + header.bytes;
    const bool waits = awaits_room();
    const Moved moved =
        waits ? Moved{} : send_some(socket_.get(), {message + out_sent_, total - out_sent_});
    if (waits || !took(moved)) {
      if (!std::exchange(unsent_, true)) progress_.note_unsent(*this);
      return false;
    }
    out_sent_ += moved.bytes;
    if (out_sent_ < total) continue;
    out_sent_ = 0;
    out_.pop();
  }
  return true;
}

std::byte* TcpConnection::acquire(std::size_t bytes) {
  COLL_CHECK(bytes <= slot_bytes(), "a message is at most a slot long");
  if (!status().ok()) return nullptr;
  if (out_.full()) {
    push_slots();
    if (out_.full() || !status().ok()) return nullptr;
  }
  return out_.back();
}

void TcpConnection::commit(std::size_t bytes, std::uint64_t digest) {
  if (!status().ok()) return;
  const Header header{bytes, digest};
  std::memcpy(out_.back() - sizeof header, &header, sizeof header);
  out_.push();
  push_slots();
}

bool TcpConnection::send(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  if (bytes <= kSmallBytes) {
    std::byte* place = acquire(bytes);
    if (place == nullptr) return false;
    copy_bytes(place, data, bytes);
    commit(bytes, digest);
    return status().ok();
  }
  COLL_CHECK(bytes <= slot_bytes(), "a message is at most a slot long");
  if (!status().ok() || !push_slots()) return false;
  Header header{bytes, digest};
  const std::size_t total = sizeof header + bytes;
  while (direct_sent_ < total) {
    std::array<iovec, 2> pieces{};
    std::size_t count = 0;
    if (direct_sent_ < sizeof header) {
      pieces[count++] = {reinterpret_cast<std::byte*>(&header) + direct_sent_,
                         sizeof header - direct_sent_};
    }
    const std::size_t done = std::max(direct_sent_, sizeof header) - sizeof header;
    pieces[count++] = {const_cast<std::byte*>(data) + done, bytes - done};
    if (awaits_room()) return false;
    const Moved moved = send_some(socket_.get(), std::span<const iovec>(pieces).first(count));
    if (!took(moved)) return false;
    direct_sent_ += moved.bytes;
  }
  direct_sent_ = 0;
  return true;
}

/// Only what lies in slots has to leave: `send` returns when the kernel has its message.
bool TcpConnection::flushed(Mark mark) {
  if (status().ok() && out_.popped() < mark) push_slots();
  return status().ok() && out_.popped() >= mark;
}

// --- receiving

/// One try to read; false if nothing came.
bool TcpConnection::pull(std::span<const iovec> pieces, std::size_t& bytes) {
  if (ended_ || (empty_ && progress_.by_news())) return false;
  const Moved moved = pieces.size() == 1
                          ? recv_some(socket_.get(), {static_cast<std::byte*>(pieces[0].iov_base),
                                                      pieces[0].iov_len})
                          : recv_some(socket_.get(), pieces);
  bytes = moved.bytes;
  if (moved.bytes > 0) {
    std::size_t asked = 0;
    for (const iovec& piece : pieces) asked += piece.iov_len;
    empty_ = moved.bytes < asked && !hung_up_;  // … or else its end may have come with the bytes
    if (watched_ && !progress_.by_news() && ++asked_ == kAskedOften) progress_.unwatch(*this);
    return true;
  }
  if (moved.would_block()) {
    empty_ = true;
  } else {
    ended_ = true;
    end_error_ = moved.error;
  }
  return false;
}

/// Reads the next message's header. A caller that knows how long the message is gets the payload
/// into its memory by the same system call, if that is worth it.
bool TcpConnection::read_header(std::byte* into, std::size_t expected) {
  got_ = 0;
  while (ahead_end_ - ahead_begin_ < sizeof header_) {
    std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead_end_ - ahead_begin_);
    ahead_end_ -= ahead_begin_;
    ahead_begin_ = 0;
    std::size_t bytes = 0;
    if (ahead_end_ == 0 && expected > kSmallBytes) {
      const std::array<iovec, 3> pieces{{{ahead_.get(), sizeof header_},
                                         {into, expected},
                                         {ahead_.get() + sizeof header_, sizeof header_}}};
      if (!pull(pieces, bytes)) return false;
      const std::size_t behind = bytes - std::min(bytes, sizeof header_);
      got_ = std::min(behind, expected);
      ahead_end_ = bytes - got_;
    } else {
      const iovec piece{ahead_.get() + ahead_end_, kAheadBytes - ahead_end_};
      if (!pull({&piece, 1}, bytes)) return false;
      ahead_end_ += bytes;
    }
  }
  std::memcpy(&header_, ahead_.get() + ahead_begin_, sizeof header_);
  ahead_begin_ += sizeof header_;
  have_header_ = true;
  return true;
}

/// Reads what is missing of the payload's [begin, end), which belongs to `into`; true when that is
/// whole.
bool TcpConnection::read_payload(std::byte* into, std::size_t begin, std::size_t end) {
  const std::size_t have = std::min(end - std::min(end, got_), ahead_end_ - ahead_begin_);
  copy_bytes(into + (got_ - begin), ahead_.get() + ahead_begin_, have);
  ahead_begin_ += have;
  got_ += have;
  while (got_ < end) {
    const std::array<iovec, 2> pieces{
        {{into + (got_ - begin), end - got_}, {ahead_.get(), more_behind(end)}}};
    std::size_t bytes = 0;
    if (!pull(pieces, bytes)) return false;
    const std::size_t mine = std::min(bytes, end - got_);
    got_ += mine;
    ahead_begin_ = 0;
    ahead_end_ = bytes - mine;
  }
  return true;
}

/// How much to read at once behind the payload's byte `end`.
std::size_t TcpConnection::more_behind(std::size_t end) const {
  if (end < header_.bytes) return 0;
  // Behind a long message only the next header: its payload had better go to its place.
  return header_.bytes > kSmallBytes ? sizeof header_ : kAheadBytes;
}

void TcpConnection::end_message() {
  have_header_ = false;
  target_ = Target::none;
}

/// Takes what has come into free slots, so that the peer's sending goes on.
void TcpConnection::drain() {
  while (target_ != Target::caller && target_ != Target::parts && !in_.full()) {
    if (!have_header_ && !read_header()) return;
    if (header_.bytes > slot_bytes()) {
      return fail(failed(Code::mismatch, "rank " + std::to_string(peer()) + " sends " +
                                             std::to_string(header_.bytes) +
                                             " bytes at once, a slot has " +
                                             std::to_string(slot_bytes())));
    }
    target_ = Target::slot;
    if (!read_payload(in_.back())) return;
    std::memcpy(in_.back() - sizeof header_, &header_, sizeof header_);
    in_.push();
    end_message();
  }
}

bool TcpConnection::matches(const Header& header, std::size_t bytes, std::uint64_t digest) {
  if (header.bytes == bytes && header.digest == digest) return true;
  fail(message_mismatch(peer(), bytes, digest, header.bytes, header.digest));
  return false;
}

/// The caller needs a message that has not come (wholly).
void TcpConnection::not_there() {
  progress_.note_vain(vain_round_);
  if (ended_) lost(end_error_);
}

const std::byte* TcpConnection::peek(std::size_t bytes, std::uint64_t digest) {
  if (!status().ok()) return nullptr;
  Header header;
  if (in_.empty()) {
    if (!have_header_ && !read_header(in_.back(), bytes)) return not_there(), nullptr;
    if (!matches(header_, bytes, digest)) return nullptr;
    target_ = Target::slot;
    if (!read_payload(in_.back())) return not_there(), nullptr;
    std::memcpy(in_.back() - sizeof header_, &header_, sizeof header_);
    in_.push();
    end_message();
    return in_.front();
  }
  std::memcpy(&header, in_.front() - sizeof header, sizeof header);
  return matches(header, bytes, digest) ? in_.front() : nullptr;
}

const std::byte* TcpConnection::peek_part(std::size_t begin, std::size_t part, std::size_t bytes,
                                          std::uint64_t digest, std::byte* room) {
  if (!status().ok()) return nullptr;
  if (!in_.empty()) return Connection::peek_part(begin, part, bytes, digest, room);
  if (!have_header_ && !read_header()) return not_there(), nullptr;
  if (!matches(header_, bytes, digest)) return nullptr;
  if (target_ != Target::parts) whole_ = got_;
  target_ = Target::parts;
  std::byte* place = room != nullptr ? room : in_.back();
  if (begin < whole_) place = in_.back() + begin;
  if (!read_payload(place, begin, begin + part)) return not_there(), nullptr;
  return place;
}

void TcpConnection::release() {
  if (target_ == Target::parts) return end_message();
  in_.pop();
}

bool TcpConnection::receive(std::byte* into, std::size_t bytes, std::uint64_t digest) {
  if (!status().ok()) return false;
  if (!in_.empty()) {
    const std::byte* payload = peek(bytes, digest);
    if (payload == nullptr) return false;
    copy_bytes(into, payload, bytes);
    release();
    return true;
  }
  if (!have_header_ && !read_header(into, bytes)) return not_there(), false;
  if (!matches(header_, bytes, digest)) return false;
  if (target_ == Target::slot) copy_bytes(into, in_.back(), got_);  // it has begun without us
  target_ = Target::caller;
  if (!read_payload(into)) return not_there(), false;
  end_message();
  return true;
}

// --- state

bool TcpConnection::watch(bool on) {
  asked_ = 0;
  return std::exchange(watched_, on) != on;
}

void TcpConnection::look() {
  if (status().ok() && !ended_) drain();
}

bool TcpConnection::push() {
  if (status().ok() && !push_slots() && status().ok()) return false;
  unsent_ = false;
  return true;
}

bool TcpConnection::take_note(bool over) {
  empty_ = no_room_ = false;
  hung_up_ |= over;
  return !std::exchange(unread_, true);
}

bool TcpConnection::drained() {
  if (status().ok() && !ended_) {
    drain();
    if (status().ok() && !ended_ && !empty_) return false;
  }
  unread_ = false;
  return true;
}

void TcpConnection::notice_silence() {
  if (status().ok() && host_silent(socket_.get())) lost(ETIMEDOUT);
}

void TcpConnection::lost(int error) {
  std::string what = "rank " + std::to_string(peer());
  what += error == ETIMEDOUT ? " no longer answers" : " closed its connection";
  what += " (lane " + std::to_string(spec_.lane) + ", " + local_address(socket_.get()).text() +
          " to " + remote_.text() + ")";
  if (error == 0 || is_loss(error)) {
    fail(failed(Code::peer_lost, std::move(what), "look at that rank's output", error));
  } else {
    fail(system_failure("the connection to " + what, error));
  }
}

}  // namespace coll
