// SPDX-License-Identifier: Apache-2.0
// What thousands of ranks cost the hub: to meet, to agree, to learn of a death.
#include <benchmark/benchmark.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
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

#include "communicator/membership/membership.hpp"
#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/seeker.hpp"
#include "rendezvous/unique_id.hpp"
#include "sys/file_limit.hpp"
#include "sys/net/socket.hpp"
#include "sys/proof.hpp"

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

/// Thousands of threads that wait for sockets need no more.
constexpr std::size_t kStackBytes = std::size_t{256} << 10;

/// Runs all at the same time, each on a thread with a small stack.
void run_all(const std::vector<std::function<void()>>& parts) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  std::vector<pthread_t> threads(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto run = [](void* part) -> void* {
      (*static_cast<const std::function<void()>*>(part))();
      return nullptr;
    };
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): as pthread_create takes it
    void* part = const_cast<std::function<void()>*>(&parts[i]);
    const int error = pthread_create(&threads[i], &small, run, part);
    if (error != 0) need(system_failure("a thread per rank", error));
  }
  pthread_attr_destroy(&small);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

/// All ranks but the hub in this process, with real sockets and the library's own code; only what
/// they hear is thrown away unread.
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
    meetings_.resize(seekers_.size());
  }

  void meet() {
    for (std::size_t left = seekers_.size(); left > 0;) {
      for (std::size_t i = 0; i < seekers_.size(); ++i) {
        if (!seekers_[i]) continue;
        auto result = seekers_[i]->step(Clock::now());
        if (!result) continue;
        meetings_[i] = need(*std::move(result));
        seekers_[i].reset();
        --left;
      }
    }
  }

  /// Each rank's part of exchanges in which it says these texts, one after the other.
  void exchange(const std::function<std::vector<std::string>(Rank)>& says,
                const Relaying& relaying) {
    std::vector<std::function<void()>> parts;
    for (Meeting& meeting : meetings_) {
      parts.emplace_back([&] {
        for (std::string& text : says(meeting.rank)) {
          need(exchange_packed(meeting, std::move(text), Clock::now() + kPatience, relaying));
        }
      });
    }
    run_all(parts);
  }

  void die(Rank rank) { meetings_[static_cast<std::size_t>(rank) - 1].links.clear(); }

  /// Until all that live have heard something; the bytes that came.
  std::size_t hear() {
    const Fd ready(epoll_create1(EPOLL_CLOEXEC));
    std::size_t left = 0, bytes = 0;
    for (Meeting& meeting : meetings_) {
      if (meeting.links.empty()) continue;
      ++left;
      const int fd = meeting.links[static_cast<std::size_t>(meeting.hub)].get();
      epoll_event wanted{EPOLLIN, {.fd = fd}};
      epoll_ctl(ready.get(), EPOLL_CTL_ADD, fd, &wanted);
    }
    std::array<epoll_event, 256> events{};
    std::array<std::byte, 4096> scratch{};
    while (left > 0) {
      const int count = epoll_wait(ready.get(), events.data(), events.size(), -1);
      for (int e = 0; e < count; ++e) {
        const int fd = events[static_cast<std::size_t>(e)].data.fd;
        bytes += recv_some(fd, scratch).bytes;
        epoll_ctl(ready.get(), EPOLL_CTL_DEL, fd, nullptr);
        --left;
      }
    }
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<Seeker>> seekers_;
  std::vector<Meeting> meetings_;  ///< of rank i + 1
};

MeetingPlace new_place() {
  const Fd listener = need(listen_everywhere());
  MeetingPlace place;
  place.addresses = {"127.0.0.1:" + std::to_string(local_address(listener.get()).port())};
  place.key = need(random_bytes(kNonceBytes));
  place.source = "benchmark";
  return place;
}

/// What the ranks have taken from the hub so far.
std::uint64_t bytes_taken(const Meeting& hub) {
  std::uint64_t bytes = 0;
  for (const Fd& link : hub.links) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (link && getsockopt(link.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      bytes += info.tcpi_bytes_acked;
    }
  }
  return bytes;
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
    // Two ends of each link to the hub; besides, if they exchange, a door, and for a moment the two
    // ends of a relay's call.
    need(raise_file_limit(2 * static_cast<std::size_t>(size),
                          5 * static_cast<std::size_t>(size) + 256,
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

/// Every rank's text to every rank. No two texts are alike, as if ranks shared nothing. Arguments:
/// ranks, bytes of a text, and the fan-out of the relays (0: a star).
void exchange_texts(benchmark::State& state) {
  const auto size = static_cast<Rank>(state.range(0));
  const auto fan_out = static_cast<Rank>(state.range(2));
  const Relaying relaying{.star_up_to = fan_out == 0 ? size : 1,
                          .fan_out = std::max<Rank>(fan_out, 1),
                          .call_time = kPatience,  // thousands of threads on few cores take theirs
                          .help_time = kPatience};
  Simulated ranks(size);
  for (auto _ : state) {
    const std::uint64_t before = bytes_taken(ranks.hub);
    const auto text = [&](Rank rank) { return text_of(rank, state.range(1)); };
    const Cost cost = measured(
        [&] { need(exchange_packed(ranks.hub, text(0), Clock::now() + kPatience, relaying)); },
        [&] {
          ranks.members.exchange([&](Rank rank) { return std::vector{text(rank)}; }, relaying);
        });
    count(state, cost, bytes_taken(ranks.hub) - before);
  }
}

Result<Membership> agree(Meeting& meeting) {
  return agree_on_membership(assembly_of(meeting, Clock::now() + kPatience),
                             need(transport_choices("shm,tcp")), "", {});
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
    const std::uint64_t before = bytes_taken(ranks.hub);
    const Cost cost =
        measured([&] { need(agree(ranks.hub)); },
                 [&] {
                   ranks.members.exchange([&](Rank) { return std::vector{card, choice}; }, {});
                 });
    count(state, cost, bytes_taken(ranks.hub) - before);
  }
  state.counters["card_bytes"] = static_cast<double>(card.size());
}

/// From a rank's death until all others have the verdict.
void death(benchmark::State& state) {
  const auto size = static_cast<Rank>(state.range(0));
  for (auto _ : state) {
    Simulated ranks(size);
    const CallBoard board;
    const std::vector<Member> members(static_cast<std::size_t>(size));
    const auto plane = need(start_control(std::move(ranks.hub), members));
    const auto watch = need(start_watch(plane->open_first(), members, board));
    const auto begin = Clock::now();
    ranks.members.die(size / 2);
    const std::size_t bytes = ranks.members.hear();
    count(state, {seconds_since(begin), 0}, bytes);
  }
}

void sizes(benchmark::internal::Benchmark* one) {
  for (const int ranks : {16, 64, 256, 1024, 2048, 4096}) one->Arg(ranks);
  one->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
}
BENCHMARK(meeting)->Apply(sizes)->Arg(8192);
BENCHMARK(agreement)->Apply(sizes);
BENCHMARK(death)->Apply(sizes)->Arg(8192);
BENCHMARK(exchange_texts)
    ->ArgsProduct({{16, 64, 256, 1024, 2048, 4096}, {256}, {0, 2, 16, 64}})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace coll

BENCHMARK_MAIN();
