// SPDX-License-Identifier: Apache-2.0
// perf/: tools that measure the library through its public headers. This file: what thousands of
// ranks cost the hub: to meet, to agree, to learn of a death.
#include <benchmark/benchmark.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "communicator/membership.hpp"
#include "communicator/seeker.hpp"
#include "communicator/unique_id.hpp"
#include "sys/file_limit.hpp"
#include "sys/proof.hpp"
#include "sys/socket.hpp"
#include "sys/socket_frame.hpp"

namespace coll {
namespace {

using std::chrono::seconds;

constexpr auto kPatience = seconds(300);

/// The first trouble ends the benchmark with its text.
void need(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.text() << '\n';
  std::exit(1);  // NOLINT(concurrency-mt-unsafe)
}
template <typename T>
T need(Result<T> result) {
  need(result.status());
  return *std::move(result);
}

double seconds_since(Deadline begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Processor time of the calling thread.
double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double most_resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// All ranks but the hub, simulated by one thread: real sockets, the real handshake, and from then
/// on each sends what it is told and throws away what it gets.
class Members {
 public:
  Members(const MeetingPlace& place, Rank size) {
    std::vector<NetAddress> addresses;
    for (const std::string& text : place.addresses)
      addresses.push_back(need(NetAddress::parse(text)));
    for (Rank rank = 1; rank < size; ++rank) {
      seekers_.push_back(std::make_unique<Seeker>(need(this_claimant(rank, size))));
      seekers_.back()->aim(addresses, place.key);
    }
    fds_.resize(seekers_.size());
  }

  void meet() {
    for (std::size_t left = seekers_.size(); left > 0;) {
      for (std::size_t i = 0; i < seekers_.size(); ++i) {
        if (!seekers_[i]) continue;
        auto result = seekers_[i]->step(Clock::now());
        if (!result) continue;
        Meeting meeting = need(*std::move(result));
        fds_[i] = std::move(meeting.links[static_cast<std::size_t>(meeting.hub)]);
        seekers_[i].reset();
        --left;
      }
    }
  }

  /// What each rank says next (nothing: it only listens), until the hub's next frame has reached
  /// all of them. The bytes that came.
  std::size_t talk(const std::function<std::string(Rank)>& says = {}) {
    // poll(2) over all of them for each that is ready would cost more than the hub does.
    const Fd ready(epoll_create1(EPOLL_CLOEXEC));
    std::vector<Incoming> incoming(fds_.size());
    std::size_t left = 0, bytes = 0;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      if (!fds_[i]) continue;
      ++left;
      epoll_event wanted{EPOLLIN, {.u64 = i}};
      epoll_ctl(ready.get(), EPOLL_CTL_ADD, fds_[i].get(), &wanted);
      if (says) {
        need(send_frame(fds_[i].get(), says(static_cast<Rank>(i) + 1), Clock::now() + kPatience));
      }
    }
    std::array<epoll_event, 256> events{};
    while (left > 0) {
      const int count = epoll_wait(ready.get(), events.data(), events.size(), -1);
      for (int e = 0; e < count; ++e) {
        const std::size_t i = events[static_cast<std::size_t>(e)].data.u64;
        bytes += take(fds_[i].get(), incoming[i]);
        if (incoming[i].head_have < incoming[i].head.size() || incoming[i].left > 0) continue;
        epoll_ctl(ready.get(), EPOLL_CTL_DEL, fds_[i].get(), nullptr);
        --left;
      }
    }
    return bytes;
  }

  void die(Rank rank) { fds_[static_cast<std::size_t>(rank) - 1].reset(); }

 private:
  /// A frame on its way, as sys/socket_frame has them.
  struct Incoming {
    std::array<std::byte, 4> head{};
    std::size_t head_have = 0;
    std::size_t left = 0;
  };

  std::size_t take(int fd, Incoming& one) {
    const bool head = one.head_have < one.head.size();
    const Moved moved =
        recv_some(fd, head ? std::span(one.head).subspan(one.head_have)
                           : std::span(scratch_).first(std::min(scratch_.size(), one.left)));
    if (moved.closed) need(failed(Code::peer_lost, "the hub closed a link"));
    if (!head) {
      one.left -= moved.bytes;
    } else if ((one.head_have += moved.bytes) == one.head.size()) {
      for (unsigned b = 0; b < 4; ++b) {
        one.left |= std::to_integer<std::size_t>(one.head[b]) << (8 * b);
      }
    }
    return moved.bytes;
  }

  std::vector<std::unique_ptr<Seeker>> seekers_;
  std::vector<Fd> fds_;  ///< of rank i + 1
  std::vector<std::byte> scratch_ = std::vector<std::byte>(std::size_t{1} << 20);
};

MeetingPlace new_place() {
  const Fd listener = need(listen_everywhere());
  MeetingPlace place;
  place.addresses = {"127.0.0.1:" + std::to_string(local_address(listener.get()).port())};
  place.key = need(random_bytes(kNonceBytes));
  place.source = "benchmark";
  return place;
}

/// The hub's part on this thread while the others do theirs on another one.
struct Cost {
  double s = 0;
  double cpu_s = 0;
};
Cost measured(const std::function<void()>& hub, const std::function<void()>& others) {
  const auto begin = Clock::now();
  const double cpu = cpu_s();
  std::thread thread(others);
  hub();
  const double took = cpu_s() - cpu;
  thread.join();
  return {seconds_since(begin), took};
}

/// A hub and its ranks, which have met.
struct Simulated {
  explicit Simulated(Rank size) : enough(raise(size)), place(new_place()), members(place, size) {
    cost = measured([&] { hub = need(meet(place, 0, size, Clock::now() + kPatience)); },
                    [&] { members.meet(); });
  }
  static bool raise(Rank size) {
    need(raise_file_limit(2 * static_cast<std::size_t>(size),
                          2 * static_cast<std::size_t>(size) + 256,
                          "a simulation of " + std::to_string(size) + " ranks in one process"));
    return true;
  }
  bool enough;
  MeetingPlace place;
  Members members;
  Meeting hub;
  Cost cost;
};

void count(benchmark::State& state, const Cost& cost, std::size_t bytes) {
  state.SetIterationTime(cost.s);
  state.counters["hub_cpu_us_per_rank"] = 1e6 * cost.cpu_s / static_cast<double>(state.range(0));
  state.counters["from_hub_MB"] = 1e-6 * static_cast<double>(bytes);
  state.counters["most_resident_MiB"] = most_resident_mib();
}

/// From the first dial until every rank has heard that all are there.
void meeting(benchmark::State& state) {
  for (auto _ : state) count(state, Simulated(static_cast<Rank>(state.range(0))).cost, 0);
}

/// Bytes that have nothing in common with another rank's.
std::string text_of(Rank rank, std::int64_t bytes) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(rank));
  std::string text;
  while (std::ssize(text) < bytes) text += static_cast<char>(random() & 0xff);
  return text;
}

/// One text of so many bytes from every rank to every rank; no two alike, as if nothing were
/// shared.
void exchange_texts(benchmark::State& state) {
  Simulated ranks(static_cast<Rank>(state.range(0)));
  for (auto _ : state) {
    std::size_t bytes = 0;
    const Cost cost = measured(
        [&] { need(exchange(ranks.hub, text_of(0, state.range(1)), Clock::now() + kPatience)); },
        [&] {
          bytes =
              ranks.members.talk([&](Rank rank) { return 'T' + text_of(rank, state.range(1)); });
        });
    count(state, cost, bytes);
  }
}

Result<Membership> agree(Meeting& meeting) {
  return agree_on_membership(meeting, need(transport_choices("shm,tcp")), "", {},
                             Clock::now() + kPatience);
}

/// What rank 0 of two says to a rank 1 that says these texts before.
std::string next_words(const std::vector<std::string>& texts) {
  const MeetingPlace place = new_place();
  std::string heard;
  std::thread zero([&] {
    Meeting hub = need(meet(place, 0, 2, Clock::now() + kPatience));
    (void)agree(hub);  // rank 1 goes away in the middle of it
  });
  Meeting one = need(meet(place, 1, 2, Clock::now() + kPatience));
  for (std::size_t i = 0; i <= texts.size(); ++i) {
    heard = need(exchange(one, i < texts.size() ? texts[i] : "", Clock::now() + kPatience)).front();
  }
  zero.join();
  return heard;
}

/// All that follows the meeting: cards, choices of paths, the world to plan by. The ranks are on
/// one host here; each has rank 0's card.
void agreement(benchmark::State& state) {
  const std::string card = next_words({});
  const std::string choice = next_words({card});
  Simulated ranks(static_cast<Rank>(state.range(0)));
  for (auto _ : state) {
    std::size_t bytes = 0;
    const Cost cost = measured([&] { need(agree(ranks.hub)); },
                               [&] {
                                 bytes = ranks.members.talk([&](Rank) { return 'T' + card; });
                                 bytes += ranks.members.talk([&](Rank) { return 'T' + choice; });
                               });
    count(state, cost, bytes);
  }
  state.counters["card_bytes"] = static_cast<double>(card.size());
}

/// From a rank's death until all others have the verdict.
void death(benchmark::State& state) {
  const auto size = static_cast<Rank>(state.range(0));
  for (auto _ : state) {
    Simulated ranks(size);
    const CallBoard board;
    const auto watch = need(start_watch(
        std::move(ranks.hub), std::vector<Member>(static_cast<std::size_t>(size)), board));
    const auto begin = Clock::now();
    ranks.members.die(size / 2);
    const std::size_t bytes = ranks.members.talk();
    count(state, {seconds_since(begin), 0}, bytes);
  }
}

void sizes(benchmark::internal::Benchmark* one) {
  for (const int ranks : {16, 64, 256, 1024, 2048, 4096, 8192}) one->Arg(ranks);
  one->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}
BENCHMARK(meeting)->Apply(sizes);
BENCHMARK(agreement)->Apply(sizes);
BENCHMARK(death)->Apply(sizes);
BENCHMARK(exchange_texts)
    ->ArgsProduct({{16, 64, 256, 1024, 2048, 4096, 8192}, {16, 256}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace coll

BENCHMARK_MAIN();
