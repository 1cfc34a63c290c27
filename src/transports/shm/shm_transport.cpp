// SPDX-License-Identifier: Apache-2.0
// The transport, which makes the connections.
#include "transports/shm/shm_transport.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include "base/erase_over.hpp"
#include "base/log.hpp"
#include "sys/net/unix_socket.hpp"

namespace coll {
namespace {

/// Callers that say nothing are kept up to this many; then the oldest is dropped.
constexpr std::size_t kStrangers = 64;
/// A caller dropped among strangers, though it was none, dials again.
constexpr int kDials = 3;
constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 40;

void log_stranger(const char* why) {
  if (log_enabled(LogLevel::debug))
    log(LogLevel::debug, std::string("shm: dropped a stranger: ") + why);
}

std::string context(const ConnectionSpec& spec) {
  return "shm: connecting to rank " + std::to_string(spec.peer) + ", lane " +
         std::to_string(spec.lane);
}

}  // namespace

Result<std::unique_ptr<Transport>> make_shm_transport(const TransportSpec& spec) {
  static std::atomic<bool> segments_work{false};  // what works once is not tried again
  if (!segments_work.load(std::memory_order_relaxed)) {
    COLL_ASSIGN(const Fd probe, MemorySegment::create("coll-probe", kLinePair));
    COLL_ASSIGN(const MemorySegment mapped, MemorySegment::map(probe, kLinePair));
    segments_work.store(true, std::memory_order_relaxed);
  }
  COLL_ASSIGN(ShmDoor door, ShmDoor::open());
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(spec, std::move(door.descriptor), std::move(door.listener)));
}

ShmTransport::ShmTransport(TransportSpec spec, ShmDescriptor descriptor, Fd listener)
    : spec_(std::move(spec)),
      descriptor_(std::move(descriptor)),
      text_(descriptor_.text()),
      listener_(std::move(listener)) {}

ShmTransport::~ShmTransport() {
  COLL_CHECK(dials_.empty() && awaited_.empty(), "a connection outlives its transport");
}

Transport::Limits ShmTransport::limits() const {
  // Slices pass from cache to cache. Slots have room for longer messages that are fetched, for the
  // case that they cannot be; what is not used of a slot costs no memory.
  return {.slot_bytes = 1 << 20, .slice_bytes = 64 << 10, .credits = 8};
}

Status ShmTransport::accepts(std::string_view peer_descriptor) const {
  COLL_ASSIGN(const ShmDescriptor peer, ShmDescriptor::parse(peer_descriptor));
  return descriptor_.accepts(peer);
}

Status ShmTransport::check(const ConnectionSpec& spec) const {
  COLL_TRY(check_connection(spec_, spec));
  if (ShmLayout::of(spec).segment_bytes() > kMaxSegmentBytes)
    return failed(Code::invalid_argument,
                  "no segment has " + std::to_string(spec.credits) + " slots of " +
                      std::to_string(spec.slot_bytes) + " bytes in each direction",
                  "a segment has at most 1 TiB");
  const auto same = [&](const auto& other) {
    return other.spec.peer == spec.peer && other.spec.lane == spec.lane;
  };
  if (std::ranges::any_of(dials_, same) || std::ranges::any_of(awaited_, same))
    return failed(Code::invalid_usage, "this connection is being opened already");
  return {};
}

Result<std::unique_ptr<Connection>> ShmTransport::open(const ConnectionSpec& spec,
                                                       std::string_view peer_descriptor) {
  if (Status bad = check(spec); !bad.ok()) return bad.with_context(context(spec));
  auto connection = std::make_unique<ShmConnection>(spec, this);
  if (spec_.rank > spec.peer) {
    if (Status bad = dial(spec, peer_descriptor, connection.get()); !bad.ok())
      return bad.with_context(context(spec)).at_rank(spec.peer);
  } else {
    awaited_.push_back({connection.get(), spec});
    pairs_ = true;
  }
  return std::unique_ptr<Connection>(std::move(connection));
}

void ShmTransport::poll() {
  ready_.collect();
  erase_over(dials_, [&](Dial& dial) { return is_over(dial); });
  accept_strangers();
  hear_strangers();
  if (std::exchange(pairs_, false)) meet_callers();
  if (dials_.empty()) ready_.clear();
}

void ShmTransport::forget(const ShmConnection* connection) {
  const auto is_it = [&](const auto& other) { return other.connection == connection; };
  std::erase_if(dials_, is_it);
  std::erase_if(awaited_, is_it);
}

/// What the peer's memory is read in place by, null if it passed none.
PeerSegments* ShmTransport::segments_of(Rank peer, Fd arena, const ShmMemory& memory) {
  const auto known = segments_.find(peer);
  if (known != segments_.end()) return &known->second;
  if (!arena) return nullptr;
  return &segments_.try_emplace(peer, std::move(arena), memory.proof.pid, memory.arena)
              .first->second;
}

// --- dialling

Status ShmTransport::dial(const ConnectionSpec& spec, std::string_view peer_descriptor,
                          ShmConnection* connection) {
  COLL_ASSIGN(const ShmDescriptor peer, ShmDescriptor::parse(peer_descriptor));
  const std::size_t bytes = ShmLayout::of(spec).segment_bytes();
  COLL_ASSIGN(Fd memory, MemorySegment::create("coll-shm", bytes));
  COLL_ASSIGN(MemorySegment segment, MemorySegment::map(memory, bytes));
  Dial dial{connection, spec, peer.socket_name, std::move(memory), std::move(segment)};
  if (!is_over(dial)) dials_.push_back(std::move(dial));
  return connection->status();
}

/// Does what can be done now. True: the connection is ready, or has failed.
bool ShmTransport::is_over(Dial& dial) {
  if (!dial.socket) {
    auto socket = unix_dial(dial.socket_name);
    if (!socket.ok()) {
      dial.connection->give_up(socket.status());
      return true;
    }
    if (!socket->has_value()) return false;
    dial.socket = std::move(**socket);
    ready_.add(dial.socket.get());
    ++dial.attempts;
    const auto user = unix_peer_user(dial.socket);
    if (!user.ok() || *user != descriptor_.user) {
      dial.connection->give_up(failed(Code::unreachable, "its socket belongs to another user",
                                      "start all ranks as the same user"));
      return true;
    }
  }
  if (!dial.hello_sent) {
    const ShmHello hello = ShmHello::of(spec_, dial.spec);
    const auto sent =
        unix_send(dial.socket, bytes_of(hello), {dial.memory.get(), hello.memory.descriptor()});
    if (!sent.ok()) return hung_up(dial, sent.status());
    dial.hello_sent = *sent;
    if (!dial.hello_sent) return false;
  }
  if (!ready_.has(dial.socket.get())) return false;
  ShmAnswer answer;
  auto packet = unix_receive(dial.socket, room_of(answer));
  if (!packet.ok()) return hung_up(dial, packet.status());
  if (!packet->has_value()) return false;
  if ((*packet)->bytes != sizeof answer || answer.magic != ShmHello::kMagic) {
    dial.connection->give_up(failed(Code::unreachable, "its answer is of another wire version",
                                    "all ranks must load the same version of the library"));
    return true;
  }
  return take_answer(dial, answer, std::move((*packet)->passed[0]));
}

bool ShmTransport::hung_up(Dial& dial, const Status& failure) {
  if (failure.code() == Code::peer_lost && dial.attempts < kDials) {
    dial.socket.reset();
    dial.hello_sent = false;
    return false;
  }
  dial.connection->give_up(failure.code() == Code::peer_lost
                               ? failed(Code::unreachable, "it hung up without an answer",
                                        "it has ended, or takes this rank for one of another job")
                               : failure);
  return true;
}

bool ShmTransport::take_answer(Dial& dial, const ShmAnswer& answer, Fd arena) {
  if (answer.verdict == ShmAnswer::accepted) {
    dial.connection->start(std::move(dial.segment), ShmLayout::of(dial.spec), true,
                           answer.memory.proof,
                           segments_of(dial.spec.peer, std::move(arena), answer.memory));
  } else if (answer.verdict == ShmAnswer::other_layout) {
    dial.connection->give_up(shm_other_layout(dial.spec, answer.slot_bytes, answer.credits));
  } else {
    dial.connection->give_up(failed(
        Code::out_of_resources, "it has no memory left for a connection, or too many open files",
        "raise its limits (ulimit -n, memory of the container)"));
  }
  return true;
}

// --- listening

void ShmTransport::accept_strangers() {
  // One poll takes no more than the queue of a busy start holds; nobody can keep it here.
  for (std::size_t taken = 0; taken < 4 * kStrangers; ++taken) {
    auto stranger = unix_accept(listener_);
    if (!stranger.ok() && !strangers_.empty()) {
      strangers_.erase(strangers_.begin());  // perhaps it was one descriptor that was missing
      continue;
    }
    if (!stranger.ok()) {
      erase_over(awaited_, [&](const Awaited& awaited) {
        awaited.connection->give_up(stranger.status().with_context(context(awaited.spec)));
        return true;
      });
      return;
    }
    if (!stranger->has_value()) return;
    const auto user = unix_peer_user(**stranger);
    if (!user.ok() || *user != descriptor_.user) {
      log_stranger("it runs as another user");
      continue;
    }
    if (strangers_.size() == kStrangers) {
      log_stranger("it says nothing, and others wait");
      strangers_.erase(strangers_.begin());
    }
    strangers_.push_back(std::move(**stranger));
    // Ranks have said hello by now; so a flood of the silent does not push them out.
    if (strangers_.size() == kStrangers) hear_strangers();
  }
}

void ShmTransport::hear_strangers() {
  erase_over(strangers_, [&](Fd& stranger) {
    ShmHello hello;
    auto packet = unix_receive(stranger, room_of(hello));
    if (packet.ok() && !packet->has_value()) return false;
    if (!packet.ok() || (*packet)->bytes != sizeof hello || !hello.is_for(spec_)) {
      log_stranger("it hung up, or does not know the job");
      return true;
    }
    auto& [memory, arena] = (*packet)->passed;
    if (!memory && !(*packet)->passed_lost) {
      log_stranger("it sent no memory");
      return true;
    }
    std::erase_if(callers_, [&](const Caller& caller) {  // who dials again has given up the first
      return caller.hello.from == hello.from && caller.hello.lane == hello.lane;
    });
    callers_.push_back({std::move(stranger), hello, std::move(memory), std::move(arena)});
    pairs_ = true;
    return true;
  });
}

void ShmTransport::meet_callers() {
  erase_over(awaited_, [&](const Awaited& awaited) {
    const auto caller = std::ranges::find_if(callers_, [&](const Caller& other) {
      return other.hello.from == awaited.spec.peer && other.hello.lane == awaited.spec.lane;
    });
    if (caller == callers_.end()) return false;
    const bool over = meet(awaited, *caller);
    callers_.erase(caller);
    return over;
  });
}

/// Answers a caller. True: the connection is ready, or has failed; false: it waits for another.
bool ShmTransport::meet(const Awaited& awaited, Caller& caller) {
  const ConnectionSpec& spec = awaited.spec;
  const ShmLayout layout{spec.slot_bytes, spec.credits, caller.hello.crowded != 0};
  ShmAnswer answer;
  answer.slot_bytes = spec.slot_bytes;
  answer.credits = spec.credits;
  answer.memory = ShmMemory::of_this_process();
  Status failure;
  MemorySegment segment;
  if (caller.hello.slot_bytes != spec.slot_bytes || caller.hello.credits != spec.credits) {
    answer.verdict = ShmAnswer::other_layout;
    failure = shm_other_layout(spec, caller.hello.slot_bytes, caller.hello.credits);
  } else if (!caller.memory) {
    answer.verdict = ShmAnswer::no_memory;
    failure = system_failure("receiving the descriptor of a shared memory segment", EMFILE);
  } else if (auto mapped = MemorySegment::map(caller.memory, layout.segment_bytes()); mapped.ok()) {
    segment = *std::move(mapped);
  } else if (mapped.status().code() == Code::out_of_resources) {
    answer.verdict = ShmAnswer::no_memory;
    failure = mapped.status();
  } else {
    log_stranger(mapped.status().text().c_str());
    return false;
  }
  const auto sent = unix_send(caller.socket, bytes_of(answer), {answer.memory.descriptor()});
  if (!failure.ok()) {
    awaited.connection->give_up(failure.with_context(context(spec)));
    return true;
  }
  if (!sent.ok() || !*sent) return false;  // the caller has gone; it may call again
  awaited.connection->start(std::move(segment), layout, false, caller.hello.memory.proof,
                            segments_of(spec.peer, std::move(caller.arena), caller.hello.memory));
  return true;
}

}  // namespace coll
