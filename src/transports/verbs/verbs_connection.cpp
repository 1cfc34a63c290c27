// SPDX-License-Identifier: Apache-2.0
// Messages put into slots, found there, and their credits.
#include "transports/verbs/verbs_connection.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy_bytes.hpp"
#include "base/log.hpp"

namespace coll {
namespace {

/// Shorter payloads are copied sooner than a device has read one more piece (an estimate).
constexpr std::size_t kLeastLoan = 8192;
/// And these sooner than the sender's device has done one more write (an estimate).
constexpr std::size_t kLeastLanding = 8192;

}  // namespace

VerbsConnection::VerbsConnection(const ConnectionSpec& spec, const VerbsOptions& options,
                                 Waiting& waiting, VerbsProgress& progress, VerbsRegions& regions)
    : Connection(spec.peer, spec.slot_bytes),
      spec_(spec),
      waiting_(waiting),
      progress_(progress),
      regions_(regions),
      ways_(*this, options, slots_, spec.credits, progress.attention()),
      lent_(spec.credits),
      arrived_(spec.credits) {
  set_least_loan(kLeastLoan);
  waiting_.push_back(this);
}

VerbsConnection::~VerbsConnection() {
  std::erase(waiting_, this);
  if (ready_ && status().ok()) drain();
  progress_.remove(*this);
}

// --- connecting

Result<VerbsMeeting> VerbsConnection::prepare(std::span<const VerbsRail> rails, std::size_t pairs) {
  COLL_TRY(slots_.allocate(spec_.credits, spec_.slot_bytes));
  for (std::size_t i = 0; i < pairs; ++i) {
    const VerbsRail& rail = rails[i % rails.size()];
    COLL_TRY(slots_.register_at(*rail.device));
    if (std::ranges::find(devices_, rail.device) == devices_.end()) devices_.push_back(rail.device);
    COLL_TRY(ways_.add(rail, progress_.take_id(*this)));
  }
  return ways_.meeting();
}

void VerbsConnection::poll_dialled() {
  if (!met_) {
    std::optional<Result<Dialled>> dialled = dialled_->take();
    if (!dialled) return;
    met_ = true;
    if (!dialled->ok()) return has_failed(dialled->status());
    VerbsMeeting there;
    std::memcpy(&there, (*dialled)->offer.bytes.data(), sizeof there);
    Status met = ways_.meet(there, std::move((*dialled)->socket));
    if (met.ok()) met = progress_.add(*this);
    if (!met.ok()) {
      ways_.hang_up();
      return has_failed(met);
    }
    dialled_.reset();
  }
  ways_.look();
  // A peer may have sent, and gone in order, since the last look.
  if (!ways_.open()) {
    if (ways_.peer_gone()) lost();
    return;
  }
  std::erase(waiting_, this);
  ready_ = true;
  set_buffer_bytes(slots_.bytes());
  if (!log_enabled(LogLevel::info)) return;
  for (std::size_t i = 0; i < ways_.pairs(); ++i)
    log(LogLevel::info, "rank " + std::to_string(peer()) + " lane " + std::to_string(spec_.lane) +
                            ": verbs " + ways_.pair(i).text());
}

void VerbsConnection::has_failed(const Status& why) {
  std::erase(waiting_, this);
  fail(why);
}

void VerbsConnection::lost() {
  has_failed(failed(Code::peer_lost,
                    "rank " + std::to_string(peer()) + " closed its connection (verbs)", {},
                    ways_.control().error()));
}

/// What was sent has to arrive before the queue pairs go. The peer need do nothing for that. If a
/// pair is broken, it has to help, and the patience is the limit.
void VerbsConnection::drain() {
  constexpr std::uint64_t kLongestNs = 3'000'000'000;
  const std::uint64_t begin = now_ns();
  const auto may_go_on = [&] { return ways_.wants_look() || now_ns() - begin < kLongestNs; };
  while (!ways_.arrived(sent_) && status().ok() && may_go_on()) {
    progress_.take_completions();
    ways_.look();
    if (ways_.peer_gone()) return;
  }
  ways_.close();
}

// --- sending

std::byte* VerbsConnection::acquire(std::size_t bytes) {
  COLL_CHECK(bytes <= slot_bytes(), "a message is at most a slot long");
  if (!status().ok()) return nullptr;
  if (sent_ - credited_ >= spec_.credits || !ways_.has_room()) {
    if (ways_.peer_gone()) lost();
    return nullptr;
  }
  return slots_.payload_out(sent_);
}

void VerbsConnection::commit(std::size_t bytes, std::uint64_t digest) {
  if (status().ok()) send_from(nullptr, bytes, digest);
}

/// A message whose payload lies in its slot, or is lent.
void VerbsConnection::send_from(const std::byte* lent, std::size_t bytes, std::uint64_t digest) {
  slots_.set_header_out(sent_, {static_cast<std::uint32_t>(bytes), 0, digest});
  told_ = consumed_;
  lent_[sent_ % spec_.credits] = lent;
  ways_.send(sent_++);
}

bool VerbsConnection::send(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  std::byte* const place = acquire(bytes);
  if (place == nullptr) return false;
  copy_bytes(place, data, bytes);
  commit(bytes, digest);
  return status().ok();
}

/// Only memory that is lent has to wait until the peer's device has it. Slots stay as they are, so
/// no call pays for the way of an acknowledgement back.
bool VerbsConnection::flushed(Mark mark) {
  if (!status().ok()) return false;
  if (mark <= credited_) return true;
  if (ways_.given(mark) && ways_.arrived(std::min(mark, lent_end_))) return true;
  if (ways_.peer_gone()) lost();
  return false;
}

// --- lending

bool VerbsConnection::lends(const std::byte* data, std::size_t bytes, Fetch /*fetch*/) {
  return regions_.find(data, bytes, devices_) != nullptr;
}

bool VerbsConnection::lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
  if (acquire(bytes) == nullptr) return false;
  send_from(data, bytes, digest);
  lent_end_ = sent_;
  return true;
}

std::optional<ibv_sge> VerbsConnection::lent(std::uint64_t message,
                                             const VerbsDevice& device) const {
  const std::byte* const data = lent_[message % spec_.credits];
  if (data == nullptr) return {};
  return ibv_sge{reinterpret_cast<std::uint64_t>(data), slots_.header_out(message).bytes,
                 regions_.at(data, device).lkey};
}

bool VerbsConnection::may_lend_of_gpu() const {
  return std::ranges::all_of(devices_, [](const VerbsDevice* one) { return one->beside_gpu(); });
}

/// A connection that has failed may read on, too.
void VerbsConnection::withdraw() {
  if (access_ended_ || all_read()) return;
  progress_.take_completions();
  if (!all_read()) end_access("what it had lent was withdrawn");
}

/// Nothing less keeps devices from going on.
void VerbsConnection::end_access(const std::string& why) {
  access_ended_ = true;
  ways_.stop();
  fail(failed(Code::aborted, "a call has failed, and " + why));
}

/// Words may come late, and tell less than is known.
void VerbsConnection::has_consumed(std::uint32_t messages) {
  const std::uint64_t more = (messages - static_cast<std::uint32_t>(credited_)) & kVerbsNumberBits;
  if (more == 0 || more > sent_ - credited_) return;
  credited_ += more;
  ways_.forget_before(credited_);
}

// --- receiving

/// A message that was found by its stamp is consumed when its completion comes.
void VerbsConnection::has_arrived(std::uint32_t message) {
  const std::uint64_t ahead = (message - static_cast<std::uint32_t>(consumed_)) & kVerbsNumberBits;
  if (ahead >= spec_.credits) return;
  const std::uint64_t number = consumed_ + ahead;
  arrived_[number % spec_.credits] = true;
  has_consumed(slots_.header_in(number).released);
}

void VerbsConnection::expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool) {
  if (!status().ok() || bytes < kLeastLanding) return;
  const VerbsRegion* const region = regions_.find(into, bytes, devices_);
  if (region != nullptr && region->writable) landings_.add({number, into, bytes});
}

std::uint32_t VerbsConnection::landing_key(const std::byte* into, const VerbsDevice& device) const {
  return regions_.at(into, device).rkey;
}

/// As many at once as their hints lie in a row.
void VerbsConnection::tell_landings() {
  const std::uint64_t end = consumed_ + slots_.hints();
  while (const VerbsLandings::Place* place = landings_.untold(end)) {
    if (!ways_.may_tell()) return;
    const std::uint64_t first = place->number;
    const std::uint64_t row = first + slots_.hints() - first % slots_.hints();
    std::uint64_t next = first;
    for (; place != nullptr && place->number == next && next < row; ++next) {
      ways_.note_landing(*place);
      landings_.tell();
      place = landings_.untold(end);
    }
    ways_.tell_landings(first, next - first);
  }
}

void VerbsConnection::cancel() {
  landings_.forget_before(consumed_);
  const bool any = landings_.any_told();
  landings_.clear();
  if (any && !access_ended_) end_access("messages were expected in its memory");
}

bool VerbsConnection::has_come(std::size_t bytes) {
  if (arrived_[consumed_ % spec_.credits]) return true;
  if (!ways_.has_stamp(consumed_, bytes)) return false;
  // Their completions wait, and with them the receives that are to be posted anew.
  if (++stamped_ >= spec_.credits) {
    stamped_ = 0;
    progress_.take_completions();
  }
  has_arrived(static_cast<std::uint32_t>(consumed_) & kVerbsNumberBits);
  return true;
}

/// What came before the peer went is here by now.
void VerbsConnection::not_there() {
  if (landings_.any_untold()) tell_landings();
  if (ways_.peer_gone() && !progress_.take_completions()) lost();
}

const std::byte* VerbsConnection::peek(std::size_t bytes, std::uint64_t digest) {
  if (!status().ok()) return nullptr;
  if (!has_come(bytes)) return not_there(), nullptr;
  const VerbsHeader header = slots_.header_in(consumed_);
  if (header.bytes == bytes && header.digest == digest)
    return (header.released & VerbsHeader::kLanded) == 0 ? slots_.payload_in(consumed_)
                                                         : landed(bytes);
  fail(message_mismatch(peer(), bytes, digest, header.bytes, header.digest));
  return nullptr;
}

/// The peer says that the message is where it is expected.
const std::byte* VerbsConnection::landed(std::size_t bytes) {
  const VerbsLandings::Place* const place = landings_.told(consumed_);
  if (place != nullptr && place->bytes == bytes) return place->into;
  fail(failed(Code::internal, "verbs: a message was written to a place that nobody told of"));
  return nullptr;
}

/// A peer that has no more messages to send hears of it when half of its credits are back.
void VerbsConnection::release() {
  arrived_[consumed_ % spec_.credits] = false;
  ++consumed_;
  landings_.forget_before(consumed_);
  if (landings_.any_untold()) tell_landings();
  if (2 * (consumed_ - told_) < spec_.credits) return;
  told_ = consumed_;
  ways_.say_consumed();
}

bool VerbsConnection::receive(std::byte* into, std::size_t bytes, std::uint64_t digest) {
  const std::byte* const place = peek(bytes, digest);
  if (place == nullptr) return false;
  if (place != into) copy_bytes(into, place, bytes);
  release();
  return true;
}

}  // namespace coll
