// SPDX-License-Identifier: Apache-2.0
// Meeting at each kind of place.
#include "rendezvous/rendezvous.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

#include "base/log.hpp"
#include "rendezvous/given_links.hpp"
#include "rendezvous/hub.hpp"
#include "rendezvous/hub_addresses.hpp"
#include "rendezvous/meeting_file.hpp"
#include "rendezvous/seeker.hpp"
#include "rendezvous/stores/job_board.hpp"
#include "rendezvous/unique_id.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kRivalTime = seconds(2);  // for another hub to show itself; a leftover does not
constexpr auto kStoreLook = milliseconds(1000);  // at most, between two looks at a store
constexpr auto kGlance = milliseconds(25);       // between two looks at a file or a taken port

/// Host names looked up once, and again while there is no hub: a name may begin to exist, or move.
class AddressBook {
 public:
  explicit AddressBook(const std::vector<std::string>& texts) : texts_(texts) {}

  std::vector<NetAddress> look_up(Deadline deadline) {
    const auto now = Clock::now();
    if (now < next_) return found_;
    std::map<std::string, std::vector<NetAddress>> hosts;
    std::vector<NetAddress> found;
    failure_ = {};
    for (const std::string& text : texts_) {
      if (const Result<NetAddress> numeric = NetAddress::parse(text); numeric.ok()) {
        found.push_back(*numeric);
        continue;
      }
      // Many ports of one name need one look-up.
      const std::size_t colon = text.rfind(':');
      const std::string host = text.substr(0, colon);
      if (!hosts.contains(host)) {
        Result<std::vector<NetAddress>> got = resolve(text, std::min(deadline, now + seconds(5)));
        if (!got.ok()) failure_ = got.status();
        hosts[host] = got.ok() ? *std::move(got) : std::vector<NetAddress>();
      }
      const auto port =
          static_cast<std::uint16_t>(std::strtoul(text.c_str() + colon + 1, nullptr, 10));
      for (const NetAddress& one : hosts[host]) found.push_back(one.with_port(port));
    }
    next_ = Clock::now() + (failure_.ok() ? seconds(10) : seconds(1));
    std::ranges::stable_sort(found, {}, [](const NetAddress& a) { return a.text(); });
    found_ = std::move(found);
    return found_;
  }
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  const std::vector<std::string>& texts_;
  std::vector<NetAddress> found_;
  Status failure_;
  Deadline next_ = Clock::now();
};

/// Where to look for the hub now; called again and again.
using Aim = std::function<Status(Seeker&)>;

/// Seeks until the deadline. `aim` may fail for good, or leave its trouble to be named at the end.
Result<Meeting> seek(const Claimant& me, const MeetingPlace& place, Deadline deadline,
                     const Aim& aim) {
  // The maker of a unique id may be any rank.
  Seeker seeker(me, place.kind == MeetingPlace::Kind::unique_id ? kNoRank : 0);
  Status trouble;
  while (Clock::now() < deadline) {
    if (!seeker.admitted()) trouble = aim(seeker);
    if (auto result = seeker.step(std::min(deadline, Clock::now() + kGlance))) {
      return *std::move(result);
    }
  }
  if (seeker.admitted()) return seeker.give_up();
  const Status lost = seeker.not_found(place.source);
  return trouble.ok() ? lost : lost.with_context(trouble.failure()->what);
}

Result<std::vector<NetAddress>> numeric(const std::vector<std::string>& texts) {
  std::vector<NetAddress> list;
  for (const std::string& text : texts) {
    COLL_ASSIGN(const NetAddress one, NetAddress::parse(text));
    list.push_back(one);
  }
  return list;
}

/// Aims at the hub that a unique id leads to; `key` is what the ranks know beside it.
Status aim_at(Seeker& seeker, const UniqueId& id, const std::string& key) {
  COLL_ASSIGN(const MeetingPlace place, place_of(id, key));
  COLL_ASSIGN(std::vector<NetAddress> addresses, numeric(place.addresses));
  seeker.aim(std::move(addresses), place.key);
  return {};
}

/// Looks, beside the hub's own work, whether another process is the hub as well: claims this rank
/// there. Only a hub with the same key answers, and then with the failure that this rank returns.
Status challenge(Seeker& rival) {
  auto answer = rival.step(Clock::now());
  if (answer && !answer->ok()) return answer->status();
  return {};
}

Result<std::uint16_t> port_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  char* end = nullptr;
  const unsigned long port =
      colon == std::string::npos ? 0 : std::strtoul(address.c_str() + colon + 1, &end, 10);
  if (port == 0 || port > 65535 || *end != '\0') {
    return failed(Code::invalid_argument, "rendezvous address \"" + address + "\" has no port",
                  "write host:port");
  }
  return static_cast<std::uint16_t>(port);
}

/// Once per process: further communicators of it are no news.
void warn_of_no_secret(const Listeners& listeners, const MeetingPlace& place) {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  log(LogLevel::warn,
      "rendezvous (" + place.source + "): whoever reaches " + listeners.text() +
          " can pose as a rank of this job, as no secret protects it; set COLL_SECRET to one "
          "random word on all ranks: COLL_SECRET=$(openssl rand -hex 16); see docs/security.md");
}

Result<Meeting> meet_tcp(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  std::vector<std::uint16_t> ports;
  for (const std::string& address : place.addresses) {
    COLL_ASSIGN(const std::uint16_t port, port_of(address));
    if (std::ranges::count(ports, port) == 0) ports.push_back(port);
  }
  if (ports.empty()) {
    return failed(Code::invalid_argument, "the rendezvous has no address (" + place.source + ")");
  }
  if (me.rank != 0) {
    AddressBook book(place.addresses);
    return seek(me, place, deadline, [&](Seeker& seeker) {
      seeker.aim(book.look_up(deadline), place.key);
      return book.failure();
    });
  }
  COLL_ASSIGN(const std::vector<NetAddress> hosts,
              hub_addresses(place.addresses, place.interfaces, place.source, deadline));
  Seeker rival(me);
  std::vector<NetAddress> taken;
  for (;;) {
    Status refused;
    for (const std::uint16_t port : ports) {
      Result<Listeners> listeners = Listeners::open(hosts, port);
      if (listeners.ok()) {
        if (!place.secret && listeners->beyond_loopback()) warn_of_no_secret(*listeners, place);
        if (!taken.empty()) rival.aim(taken, place.key);
        return hold_meeting(*std::move(listeners), place.key, me, place.source, deadline,
                            [&] { return taken.empty() ? Status() : challenge(rival); });
      }
      refused = listeners.status();
      if (refused.failure()->error != EADDRINUSE) return refused.with_context(place.source);
      for (const NetAddress& host :
           hosts.empty() ? std::vector{NetAddress::loopback(AF_INET)} : hosts) {
        const NetAddress here = host.with_port(port);
        if (std::ranges::count(taken, here) == 0) taken.push_back(here);
      }
    }
    rival.aim(taken, place.key);
    COLL_TRY(challenge(rival));
    if (Clock::now() >= deadline) return refused.with_context(place.source);
    std::this_thread::sleep_for(kGlance);
  }
}

/// The failure of a hub that is at the file already. Whatever else is there is a leftover.
Status yield_to_first(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  const Result<std::optional<UniqueId>> there = read_id(place.path);
  if (!there.ok() || !*there) return {};
  Seeker first(me);
  if (!aim_at(first, **there, place.key).ok()) return {};
  const Deadline until = std::min(deadline, Clock::now() + kRivalTime);
  while (Clock::now() < until && !first.has_failed_everywhere()) {
    const auto answer = first.step(std::min(until, Clock::now() + kGlance));
    if (answer && !answer->ok()) return answer->status();
  }
  return {};
}

Result<Meeting> meet_file(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  if (me.rank != 0) {
    return seek(me, place, deadline, [&](Seeker& seeker) {
      const Result<std::optional<UniqueId>> id = read_id(place.path);
      if (!id.ok()) return id.status();
      if (!*id) return failed(Code::unreachable, "there is no file " + place.path + " yet");
      return aim_at(seeker, **id, place.key);
    });
  }
  COLL_TRY(yield_to_first(place, me, deadline));
  COLL_ASSIGN(Door door, open_door(place.interfaces));
  COLL_TRY(publish_id(place.path, door.id));
  COLL_ASSIGN(const MeetingPlace mine, place_of(door.id, place.key));
  Seeker rival(me);
  std::optional<Deadline> replaced;
  const auto keep = [&]() -> Status {
    const Result<std::optional<UniqueId>> there = read_id(place.path);
    if (there.ok() && *there && (*there)->bytes == door.id.bytes) {
      replaced.reset();
      return {};
    }
    // Once begun, the challenge goes on: a rival that fails takes its file away.
    if (there.ok() && *there) COLL_TRY(aim_at(rival, **there, place.key));
    if (rival.aimed()) COLL_TRY(challenge(rival));
    if (!replaced) replaced = Clock::now() + kRivalTime;
    if (Clock::now() < *replaced) return {};
    replaced.reset();
    return publish_id(place.path, door.id);
  };
  Result<Meeting> meeting =
      hold_meeting(std::move(door.listeners), mine.key, me, place.source, deadline, keep);
  withdraw_id(place.path, door.id);
  return meeting;
}

Result<Meeting> meet_unique_id(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  if (Listeners listeners = take_door(place)) {
    return hold_meeting(std::move(listeners), place.key, me, place.source, deadline, {});
  }
  COLL_ASSIGN(const std::vector<NetAddress> addresses, numeric(place.addresses));
  return seek(me, place, deadline, [&](Seeker& seeker) {
    seeker.aim(addresses, place.key);
    return Status();
  });
}

Result<Meeting> meet_pmi(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  // The name says nothing of the key.
  const std::string name = "coll-" + to_hex(prove(place.key, "pmi")).substr(0, 16);
  Door door;
  std::string text;
  if (me.rank == 0) {
    COLL_ASSIGN(door, open_door(place.interfaces));
    text = id_text(door.id);
  }
  COLL_ASSIGN(const std::string shared,
              share_in_job(place.path, name, text, me.rank == 0, deadline));
  const std::optional<UniqueId> id = id_from_text(shared);
  if (!id) return failed(Code::mismatch, place.source + " gave something else than rank 0 put in");
  if (me.rank != 0) {
    return seek(me, place, deadline,
                [&](Seeker& seeker) { return aim_at(seeker, *id, place.key); });
  }
  COLL_ASSIGN(const MeetingPlace mine, place_of(*id, place.key));
  return hold_meeting(std::move(door.listeners), mine.key, me, place.source, deadline, {});
}

/// The unique id that rank 0 has put into the program's store; nothing if none is there in time.
Result<std::optional<UniqueId>> id_in_store(const MeetingPlace& place, Deadline deadline) {
  COLL_ASSIGN(const std::optional<std::string> text,
              place.program_store->get(place.path, deadline));
  if (!text || text->empty()) return std::optional<UniqueId>();  // empty: withdrawn
  const std::optional<UniqueId> id = id_from_text(*text);
  if (id) return id;
  return failed(Code::mismatch, place.source + " has a value that no rank has put there",
                "give communicators a key that nothing else uses");
}

/// Seeks by the id in the store. What is found may be left from an earlier meeting of the same key:
/// rank 0 puts another in its place.
Result<Meeting> seek_by_store(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  std::optional<UniqueId> id;
  while (!id) {
    COLL_ASSIGN(id, id_in_store(place, deadline));
    if (id) break;
    if (Clock::now() >= deadline) {
      return failed(Code::deadline, place.source + " has no value: rank 0 did not come in time",
                    "all ranks must call with the same store and key");
    }
    std::this_thread::sleep_for(kGlance);
  }
  milliseconds pause = kGlance;
  Deadline next = Clock::now() + pause;
  return seek(me, place, deadline, [&](Seeker& seeker) -> Status {
    if (Clock::now() >= next) {
      pause = std::min(2 * pause, kStoreLook);
      next = Clock::now() + pause;
      COLL_ASSIGN(const std::optional<UniqueId> now, id_in_store(place, Clock::now()));
      if (now) id = now;
    }
    return aim_at(seeker, *id, place.key);
  });
}

Result<Meeting> meet_store(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  if (me.rank != 0) return seek_by_store(place, me, deadline);
  COLL_ASSIGN(Door door, open_door(place.interfaces));
  COLL_ASSIGN(const MeetingPlace mine, place_of(door.id, place.key));
  COLL_TRY(place.program_store->set(place.path, id_text(door.id)));
  Result<Meeting> meeting =
      hold_meeting(std::move(door.listeners), mine.key, me, place.source, deadline, {});
  // Nobody is to dial a door that is closed. A store that fails now harms nothing.
  static_cast<void>(place.program_store->set(place.path, ""));
  return meeting;
}

Result<Meeting> meet_at(const MeetingPlace& place, const Claimant& me, Deadline deadline) {
  switch (place.kind) {
    case MeetingPlace::Kind::unique_id:
      return meet_unique_id(place, me, deadline);
    case MeetingPlace::Kind::tcp:
      return meet_tcp(place, me, deadline);
    case MeetingPlace::Kind::file:
      return meet_file(place, me, deadline);
    case MeetingPlace::Kind::pmi:
      return meet_pmi(place, me, deadline);
    case MeetingPlace::Kind::store:
      return meet_store(place, me, deadline);
    case MeetingPlace::Kind::links:
      return meet_over(*place.links, place.key, me, deadline);
  }
  return failed(Code::internal, "an unknown kind of rendezvous");
}

}  // namespace

Result<Meeting> meet(const MeetingPlace& place, Rank rank, Rank size, Deadline deadline) {
  if (size < 1 || rank < 0 || rank >= size) {
    return failed(
        Code::invalid_argument,
        "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks makes no sense",
        "ranks are 0 to size - 1");
  }
  COLL_ASSIGN(const Claimant me, this_claimant(rank, size));
  if (size == 1) {
    if (place.kind == MeetingPlace::Kind::unique_id) take_door(place);
    Meeting alone;
    alone.rank = alone.hub = rank;
    alone.size = size;
    alone.links.resize(1);
    COLL_ASSIGN(const std::string random, random_bytes(kNonceBytes));
    name_job(place.key, random, alone.job);
    return alone;
  }
  COLL_ASSIGN(Meeting meeting, meet_at(place, me, deadline));
  meeting.interfaces = place.interfaces;
  return meeting;
}

}  // namespace coll
