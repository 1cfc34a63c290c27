// SPDX-License-Identifier: Apache-2.0
// A stream of random messages that both sides can compute.
#pragma once
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory_resource>
#include <random>
#include <utility>
#include <vector>

#include "base/copy_bytes.hpp"
#include "transport_backend.hpp"
#include "transports/transport.hpp"

namespace coll::test {

inline bool would_lend(Connection& to, const std::byte* data, std::size_t bytes) {
  Lending* lending = to.lending();
  return lending != nullptr && bytes >= lending->least_loan() &&
         lending->lends(data, bytes, Fetch::always);
}

/// How a receiver takes a message.
enum class Taking : std::uint8_t { received, looked_at, parts };

/// One message after the other, the same on both sides for the same seed.
class Traffic {
 public:
  Traffic(std::uint64_t seed, std::size_t slot_bytes)
      : random_(seed), slot_bytes_(slot_bytes), room_(slot_bytes + 2 * kGuard) {
    next();
  }

  /// Makes the next message.
  void next() {
    const std::uint64_t draw = random_();
    // Also where TCP begins to treat messages otherwise, and what it reads at once.
    const std::size_t edges[] = {
        0, 1, 8, 47, 48, 49, 64, 4096, 4097, 16320, 16321, 16384, slot_bytes_ - 1, slot_bytes_};
    bytes = draw % 2 == 0 ? edges[draw / 2 % std::size(edges)] : draw / 2 % (slot_bytes_ + 1);
    bytes = std::min(bytes, slot_bytes_);
    digest = random_();
    way_ = static_cast<Way>(random_() % 3);
    taking_ = static_cast<Taking>(random_() % 3);
    part_ = 1 + random_() % (slot_bytes_ + 1);
    data.resize(bytes);
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random_();
      std::memcpy(data.data() + i, &word, std::min(sizeof word, bytes - i));
    }
    offset_ = kGuard - random_() % 64;  // any alignment
    std::memset(room_.data(), kUntouched, room_.size());
  }

  /// Tries to send the message; true once it is sent.
  bool send(Connection& to) {
    take_back(to);
    if (way_ == Way::in_place) {
      std::byte* place = to.acquire(bytes);
      if (place == nullptr) return false;
      copy_bytes(place, data.data(), bytes);
      to.commit(bytes, digest);
      return true;
    }
    if (!loaded_) {
      copy_bytes(room(), data.data(), bytes);
      lends_ = way_ == Way::lent && would_lend(to, room(), bytes);
    }
    loaded_ = true;
    if (!(lends_ ? to.lending()->lend(room(), bytes, digest) : to.send(room(), bytes, digest)))
      return false;
    loaded_ = false;
    if (lends_) {
      ++loans_ever;
      loans_.push_back(std::exchange(room_, new_room()));
    }
    return true;
  }

  enum class Got : std::uint8_t { nothing, right, wrong };
  /// Tries to receive the message.
  Got receive(Connection& from) {
    if (taking_ == Taking::parts && bytes > 0) return take_part(from);
    if (taking_ == Taking::received) {
      if (!from.receive(room(), bytes, digest)) return Got::nothing;
      const bool right = is_whole(room()) && guards_whole();
      return right ? Got::right : Got::wrong;
    }
    const std::byte* place = from.peek(bytes, digest);
    if (place == nullptr) return Got::nothing;
    if (place == room()) ++landings_ever;
    const bool right = is_whole(place) && (place != room() || guards_whole());
    from.release();
    return right ? Got::right : Got::wrong;
  }

  /// For about half of the messages says that they will be received to this one's memory.
  void expect(Landing& landing, std::uint64_t number) {
    if (digest % 2 == 0) landing.expect(number, room(), bytes);
  }
  /// The other one is of the same seed, at the same message, and its memory is as `expect` left it.
  void trade_memory(Traffic& other) { std::swap(room_, other.room_); }

  std::size_t bytes = 0;
  std::uint64_t digest = 0;
  std::vector<std::byte> data;
  int loans_ever = 0;
  int landings_ever = 0;  ///< that were looked at where they landed

 private:
  enum class Way : std::uint8_t { in_place, sent, lent };
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kUntouched = 0xa5;

  Got take_part(Connection& from) {
    while (taken_ < bytes) {
      const std::size_t part = std::min(part_, bytes - taken_);
      std::byte* const here = part_ % 2 == 0 ? room() + taken_ : nullptr;
      const std::byte* place = from.peek_part(taken_, part, bytes, digest, here);
      if (place == nullptr) return Got::nothing;
      wrong_ = wrong_ || std::memcmp(place, data.data() + taken_, part) != 0;
      taken_ += part;
    }
    from.release();
    taken_ = 0;
    const bool right = !std::exchange(wrong_, false) && guards_whole();
    return right ? Got::right : Got::wrong;
  }
  /// Uses lent memory for something else as soon as it may.
  void take_back(Connection& to) {
    if (loans_.empty() || !all_flushed(to)) return;
    for (auto& loan : loans_) std::memset(loan.data(), 0xbd, loan.size());
    std::ranges::move(loans_, std::back_inserter(spare_));
    loans_.clear();
  }
  std::pmr::vector<std::byte> new_room() {
    if (spare_.empty()) return std::pmr::vector<std::byte>(room_.size());
    auto spare = std::move(spare_.back());
    spare_.pop_back();
    return spare;
  }
  std::byte* room() { return room_.data() + offset_; }
  [[nodiscard]] bool is_whole(const std::byte* got) const {
    return data.empty() || std::memcmp(got, data.data(), data.size()) == 0;
  }
  bool guards_whole() {
    // The first byte is as it was, and each other is as the one before.
    const auto untouched = [](const std::byte* first, std::size_t count) {
      return count == 0 ||
             (*first == std::byte{kUntouched} && std::memcmp(first, first + 1, count - 1) == 0);
    };
    const std::size_t end = offset_ + bytes;
    return untouched(room_.data(), offset_) && untouched(room_.data() + end, room_.size() - end);
  }

  std::mt19937_64 random_;
  std::size_t slot_bytes_;
  std::pmr::vector<std::byte> room_;  ///< the caller's memory, with guards around
  std::size_t offset_ = kGuard;
  std::vector<std::pmr::vector<std::byte>> loans_;  ///< not yet returned
  std::vector<std::pmr::vector<std::byte>> spare_;  ///< returned
  Way way_ = Way::sent;
  Taking taking_ = Taking::received;
  std::size_t part_ = 0;   ///< bytes of a part
  std::size_t taken_ = 0;  ///< bytes of this message's parts
  bool wrong_ = false;     ///< one of them was
  bool lends_ = false;
  bool loaded_ = false;
};

/// `count` messages to send and `count` to receive over one end of a connection.
class Exchange {
 public:
  Exchange(Connection& end, std::uint64_t out_seed, std::uint64_t in_seed, int count)
      : end_(end),
        out_(out_seed, end.slot_bytes()),
        in_(in_seed, end.slot_bytes()),
        to_send_(count),
        to_receive_(count),
        to_expect_(count) {
    for (int i = 0; end.landing() != nullptr && i < std::min(count, kScouts); ++i) {
      scouts_.emplace_back(in_seed, end.slot_bytes());
      for (int at = 0; at < i; ++at) scouts_.back().next();
    }
  }

  /// Tries both directions once. Stops counting at the first wrong message.
  void step() {
    scout();
    if (to_send_ > 0 && out_.send(end_) && --to_send_ > 0) out_.next();
    if (to_receive_ > 0 && !wrong_) {
      const auto got = in_.receive(end_);
      wrong_ = got == Traffic::Got::wrong;
      if (got == Traffic::Got::right && --to_receive_ > 0) {
        in_.next();
        meets_scout_ = true;
      }
    }
    nudge(end_);
  }
  [[nodiscard]] int landings() const { return in_.landings_ever; }
  [[nodiscard]] int loans() const { return out_.loans_ever; }
  [[nodiscard]] bool done() const {
    return wrong_ || !end_.status().ok() ||
           (to_send_ == 0 && to_receive_ == 0 && all_flushed(end_));
  }
  [[nodiscard]] bool good() const {
    return !wrong_ && end_.status().ok() && to_send_ == 0 && to_receive_ == 0;
  }

 private:
  static constexpr int kScouts = 3;

  /// The i-th of the scouts is i messages ahead, and expects its message.
  void scout() {
    if (scouts_.empty()) return;
    if (met_ < scouts_.size()) {  // at first all of them
      for (; met_ < scouts_.size(); ++met_) expect(scouts_[met_], met_);
      in_.trade_memory(scouts_.front());
    } else if (std::exchange(meets_scout_, false)) {
      Traffic& past = scouts_[first_];
      for (std::size_t i = 0; i < scouts_.size(); ++i) past.next();
      expect(past, scouts_.size() - 1);
      first_ = (first_ + 1) % scouts_.size();
      in_.trade_memory(scouts_[first_]);
    }
  }

  void expect(Traffic& scout, std::size_t ahead) {
    if (to_expect_-- > 0) scout.expect(*end_.landing(), end_.landing()->next() + ahead);
  }

  Connection& end_;
  std::vector<Traffic> scouts_;
  std::size_t first_ = 0, met_ = 0;
  bool meets_scout_ = false;
  Traffic out_;
  Traffic in_;
  int to_send_;
  int to_receive_;
  int to_expect_;
  bool wrong_ = false;
};

}  // namespace coll::test
