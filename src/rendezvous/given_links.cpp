// SPDX-License-Identifier: Apache-2.0
// A meeting over sockets that are connected already: the words of the handshake, without dialling.
#include "rendezvous/given_links.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/frame_link.hpp"
#include "rendezvous/hub_texts.hpp"
#include "rendezvous/ranks_text.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

constexpr auto kFarewellTime = std::chrono::seconds(1);  // for a failure to leave

Status closed(Rank rank) {
  return failed(Code::peer_lost,
                "the socket that was given to rank " + std::to_string(rank) +
                    " is closed at its other end",
                "see whether that rank runs, and whether its process still has the socket")
      .at_rank(rank);
}

Status misled(Rank rank, const char* what) {
  return failed(Code::mismatch,
                "the socket that was given to rank " + std::to_string(rank) + " " + what,
                "give each rank the socket that leads to it, with nothing sent on it before, and "
                "the same COLL_SECRET, or none, on all ranks")
      .at_rank(rank);
}

/// One end of a socket, and how far its handshake has come.
struct GivenLink {
  FrameLink link;
  std::string nonce;      ///< this end's
  std::string hub_nonce;  ///< at the others; once the hub has greeted
  Claimant who;           ///< the other end, at the hub
  bool proved = false;
  bool there = false;  ///< nothing more has to come: the rank's confirm, or the hub's start
};

class GivenMeeting {
 public:
  GivenMeeting(std::vector<Fd> links, const std::string& key, const Claimant& me)
      : key_(key), me_(me), links_(links.size()) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i]) links_[i].link = FrameLink(std::move(links[i]), kHandshakeLimit);
    }
  }

  Result<Meeting> run(Deadline deadline) {
    Status failure = begin();
    while (failure.ok() && !complete()) {
      failure = Clock::now() < deadline ? turn(deadline) : is_hub() ? missing() : give_up();
    }
    if (failure.ok() && is_hub()) failure = start();
    if (!failure.ok()) {
      if (!heard_) tell_all(pack_failure(failure));
      for (GivenLink& one : links_) {
        if (one.link) one.link.hang_up();
      }
      return failure;
    }
    meeting_.rank = me_.rank;
    meeting_.size = me_.size;
    for (GivenLink& one : links_) meeting_.links.push_back(one.link.take());
    return std::move(meeting_);
  }

 private:
  [[nodiscard]] bool is_hub() const { return me_.rank == 0; }
  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(links_, [](const GivenLink& one) { return !one.link || one.there; });
  }

  Status begin() {
    for (GivenLink& one : links_) {
      if (!one.link) continue;
      COLL_ASSIGN(one.nonce, random_bytes(kNonceBytes));
      if (is_hub()) one.link.send(pack_greeting(one.nonce));
    }
    return {};
  }

  Status turn(Deadline until) {
    std::vector<pollfd> fds;
    for (const GivenLink& one : links_) fds.push_back({one.link.fd(), one.link.events(), 0});
    if (::poll(fds.data(), fds.size(), poll_timeout(until)) < 0 && errno != EINTR) {
      return system_failure("rendezvous: waiting for ranks", errno);
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if ((fds[i].revents & POLLOUT) != 0) links_[i].link.push();
      if ((fds[i].revents & ~POLLOUT) != 0) COLL_TRY(hear(static_cast<Rank>(i)));
    }
    return {};
  }

  Status hear(Rank rank) {
    GivenLink& from = links_[static_cast<std::size_t>(rank)];
    std::string frame;
    while (!complete()) {
      switch (from.link.receive(frame)) {
        case FrameLink::Got::nothing:
          return {};
        case FrameLink::Got::closed:
          return closed(rank);
        case FrameLink::Got::garbage:
          return misled(rank, "brings something that no rank says");
        case FrameLink::Got::frame:
          break;
      }
      if (const auto failure = read_failure(frame)) {
        heard_ = !is_hub();  // it knows; of a rank's failure the hub tells the others
        if (!is_hub()) return *failure;
        const std::string who = "rank " + std::to_string(rank);
        return failure->code() == Code::deadline ? missing().with_context(who + " gave up waiting")
                                                 : failure->with_context(who);
      }
      COLL_TRY(is_hub() ? hear_rank(from, rank, frame) : hear_hub(from, frame));
    }
    return {};
  }

  Status hear_rank(GivenLink& from, Rank rank, const std::string& frame) {
    if (from.proved) {
      from.there = word_of(frame) == Word::confirm;
      return from.there ? Status{} : misled(rank, "brings something that no rank says");
    }
    const auto sealed = read_claim(frame);
    if (!sealed || !is_proved(*sealed, key_, from.nonce)) {
      return misled(rank, "leads to another job, secret or version of the library");
    }
    const auto who = read_claimant(*sealed);
    if (!who) return misled(rank, "brings something that no rank says");
    if (who->size != me_.size) return other_size(me_, *who);
    if (who->rank != rank) {
      return misled(rank, ("leads to rank " + std::to_string(who->rank)).c_str());
    }
    from.who = *who;
    from.proved = true;
    from.link.send(pack_welcome(welcome_proof(key_, from.nonce, sealed->nonce)));
    return {};
  }

  Status hear_hub(GivenLink& hub, const std::string& frame) {
    if (hub.hub_nonce.empty()) {
      const auto greeting = read_greeting(frame);
      if (!greeting || greeting->version != kWireVersion) {
        return misled(0, "brings something that no rank 0 of this version says");
      }
      hub.hub_nonce = greeting->nonce;
      hub.link.send(pack_claim(me_, hub.nonce, claim_proof(key_, hub.hub_nonce, hub.nonce, me_)));
      return {};
    }
    if (!hub.proved) {
      const auto proof = read_welcome(frame);
      if (!proof || !same_proof(*proof, welcome_proof(key_, hub.hub_nonce, hub.nonce))) {
        return misled(0, "leads to another job, secret or version of the library");
      }
      hub.proved = true;
      hub.link.send(pack_confirm());
      return {};
    }
    const auto start = read_start(frame);
    if (!start || start->hub != 0) return misled(0, "brings something that no rank 0 says");
    meeting_.one_network = start->one_network;
    name_job(key_, start->random, meeting_.job);
    hub.there = true;
    return {};
  }

  Status start() {
    COLL_ASSIGN(const std::string random, random_bytes(kNonceBytes));
    meeting_.one_network = std::ranges::all_of(links_, [&](const GivenLink& one) {
      return !one.link || shares_network(me_, one.who, one.link.fd());
    });
    name_job(key_, random, meeting_.job);
    tell_all(pack_start({0, meeting_.one_network, random}));
    return {};
  }

  void tell_all(const std::string& frame) {
    for (GivenLink& one : links_) {
      if (one.link) one.link.send(frame);
    }
    const auto until = Clock::now() + kFarewellTime;
    for (GivenLink& one : links_) one.link.finish_sending(until);
  }

  /// For a rank at its deadline: rank 0 knows who is missing, and says so if it is there.
  Status give_up() {
    GivenLink& hub = links_.front();
    if (!hub.proved) return missing();
    hub.link.send(pack_failure(failed(Code::deadline, "gave up")));
    for (const auto until = Clock::now() + kFarewellTime; Clock::now() < until;) {
      COLL_TRY(turn(until));
      if (complete()) return {};
    }
    return failed(Code::deadline,
                  "rank 0 did not say in time that all ranks are there, nor who is missing",
                  "see the output of the other ranks");
  }

  [[nodiscard]] Status missing() const {
    std::vector<Rank> absent;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (links_[i].link && !links_[i].there) absent.push_back(static_cast<Rank>(i));
    }
    return failed(Code::deadline,
                  ranks_text(absent) + " did not answer in time on the sockets that were given",
                  "see whether they run; COLL_CONNECT_S is how long to wait")
        .at_rank(absent.size() == 1 ? absent.front() : kNoRank);
  }

  const std::string& key_;
  const Claimant& me_;
  std::vector<GivenLink> links_;  ///< by rank
  Meeting meeting_;
  bool heard_ = false;  ///< the failure came from the hub
};

Status check_link(int fd, Rank to) {
  const auto bad = [&](const char* why) {
    return failed(Code::invalid_argument,
                  "the socket for rank " + std::to_string(to) + ", descriptor " +
                      std::to_string(fd) + ", " + why,
                  "give connected stream sockets")
        .at_rank(to);
  };
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0) {
    return bad(errno == EBADF ? "is not open" : "is no socket");
  }
  sockaddr_storage other{};
  length = sizeof other;
  const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&other), &length) == 0;
  return type == SOCK_STREAM && connected ? Status{} : bad("is no connected stream socket");
}

Result<Fd> duplicate(int fd, Rank to) {
  Fd copy = Fd::kept_from_children([fd] { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); });
  if (!copy || ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
    return system_failure("duplicating the socket for rank " + std::to_string(to), errno);
  }
  set_nodelay(fd);
  return copy;
}

}  // namespace

Result<std::vector<Fd>> duplicate_links(const int* fds, Rank rank, Rank size) {
  std::vector<Fd> links(static_cast<std::size_t>(size));
  const auto is_linked = [rank](Rank peer) { return rank == 0 ? peer != 0 : peer == 0; };
  for (Rank peer = 0; peer < size; ++peer) {
    if (is_linked(peer)) COLL_TRY(check_link(fds[peer], peer));
  }
  for (Rank peer = 0; peer < size; ++peer) {
    if (!is_linked(peer)) continue;
    COLL_ASSIGN(links[static_cast<std::size_t>(peer)], duplicate(fds[peer], peer));
  }
  return links;
}

Result<Meeting> meet_over(const std::vector<Fd>& links, const std::string& key, const Claimant& me,
                          Deadline deadline) {
  std::vector<Fd> own(links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (!links[i]) continue;
    COLL_ASSIGN(own[i], duplicate(links[i].get(), static_cast<Rank>(i)));
  }
  return GivenMeeting(std::move(own), key, me).run(deadline);
}

}  // namespace coll
