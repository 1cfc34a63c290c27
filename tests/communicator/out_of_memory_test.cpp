// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at any one allocation of a rank, or at all from any one on. Nothing may hang
// or end the process, and all ranks fail together.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <string_view>

#include "failing_allocations.hpp"
#include "rank_processes.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

using coll::test::FailingAllocations;
using Mode = FailingAllocations::Mode;

#ifdef TRY_LESS
constexpr std::uint64_t kFewer = 6;  ///< a sample
#else
constexpr std::uint64_t kFewer = 1;
#endif
constexpr int kRanks = 2;
constexpr int kPairs = 4;          // who joins mostly waits: so many pairs of ranks do so at once
constexpr unsigned kTrial_s = 20;  // far more than any trial takes; a hang ends the process
constexpr double kLonely_s = 0.3;  // how long a rank waits for a partner that may never come
constexpr std::size_t kCount = 3000;

/// What a rank says of one step, for the other one to compare.
struct Word {
  coll_status_t code = COLL_SUCCESS;
  std::array<char, 1000> text{};
};

/// Memory of both processes: how they meet beside the library, and what they say.
struct Board {
  pthread_barrier_t barrier;
  std::atomic<bool> fired{false};
  coll_unique_id_t id{};
  std::array<Word, kRanks> act, next;

  Board() {
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&barrier, &shared, kRanks);
    pthread_barrierattr_destroy(&shared);
  }
  /// Returns when both are here.
  void meet() { pthread_barrier_wait(&barrier); }
  static void note(Word& word, coll_status_t code) {
    word.code = code;
    word.text.fill(0);
    if (code == COLL_SUCCESS) return;
    const std::string_view text = coll_last_error();
    text.copy(word.text.data(), std::min(text.size(), word.text.size() - 1));
  }
};

class SharedBoard {
 public:
  SharedBoard()
      : board_(new (mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Board) {}
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard() { munmap(board_, sizeof(Board)); }
  [[nodiscard]] Board& operator*() const { return *board_; }

 private:
  Board* board_;
};

/// A rank's things.
struct Rank {
  int rank = 0;
  const char* transports = "shm";
  double connect_s = 10, part_connect_s = 10;
  coll_comm_t comm = nullptr, old = nullptr;
  std::array<float, kCount> in{}, out{};

  coll_status_t join(const coll_unique_id_t& id) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.transports = transports;
    config.deadline_s = 10;
    config.connect_s = connect_s;
    return coll_comm_init_rank(&comm, kRanks, &id, rank, &config);
  }
  coll_status_t reduce(coll_stream_t stream) {
    in.fill(static_cast<float>(rank + 1));
    out.fill(-1);
    return coll_all_reduce(in.data(), out.data(), kCount, COLL_FLOAT32, COLL_SUM, comm, stream);
  }
  [[nodiscard]] bool reduced() const {
    return std::ranges::all_of(out, [](float one) { return one == 3; });
  }
  coll_status_t reduce_on_stream() {
    coll_stream_t stream = nullptr;
    coll_status_t code = coll_stream_create(&stream);
    if (code == COLL_SUCCESS) {
      code = reduce(stream);
      const coll_status_t done = coll_stream_synchronize(stream);
      if (code == COLL_SUCCESS) code = done;
      if (const coll_status_t gone = coll_stream_destroy(stream); gone != COLL_SUCCESS) code = gone;
    }
    // What a program does that cannot go on; without a stream nothing was called, and nobody told.
    if (code != COLL_SUCCESS) coll_comm_abort(comm);
    return code;
  }
  coll_status_t exchange() {
    const int peer = 1 - rank;
    coll_status_t code = coll_group_start();
    if (code == COLL_SUCCESS) {
      float got = 0;
      // What is refused is said again by the end.
      static_cast<void>(reduce(nullptr));
      static_cast<void>(coll_send(&in[0], 1, COLL_FLOAT32, peer, comm, nullptr));
      static_cast<void>(coll_recv(&got, 1, COLL_FLOAT32, peer, comm, nullptr));
      code = coll_group_end();
      if (code == COLL_SUCCESS && got != static_cast<float>(peer + 1)) code = COLL_INTERNAL;
    }
    // The other rank knows nothing of a group that was not issued.
    if (code != COLL_SUCCESS) coll_comm_abort(comm);
    return code;
  }
  /// Goes on with both ranks' part of the communicator in its place.
  coll_status_t split() {
    coll_config_t config = COLL_CONFIG_INIT;
    config.connect_s = part_connect_s;
    coll_comm_t part = nullptr;
    const coll_status_t code = coll_comm_split(comm, 0, 0, &config, &part);
    const coll_status_t left = leave();
    comm = part;
    return code == COLL_SUCCESS ? left : code;
  }
  /// Goes on with a duplicate of the communicator, which stays: by its end nobody sees that a rank
  /// does not come.
  coll_status_t duplicate() {
    coll_comm_t copy = nullptr;
    const coll_status_t code = coll_comm_duplicate(comm, nullptr, &copy);
    old = std::exchange(comm, copy);
    // What a program does that cannot go on: this rank may not have told the others.
    if (code != COLL_SUCCESS) coll_comm_abort(old);
    return code;
  }
  /// All communicators that there are.
  coll_status_t leave() {
    coll_status_t code = COLL_SUCCESS;
    for (coll_comm_t* const one : {&comm, &old}) {
      if (*one == nullptr) continue;
      const coll_status_t left = coll_comm_destroy(std::exchange(*one, nullptr));
      if (code == COLL_SUCCESS) code = left;
    }
    return code;
  }
};

enum class Act { join, reduce, stream, group, split, duplicate, leave };

/// Whoever's partner is not there has to wait for it.
bool makes_communicator(Act act) {
  return act == Act::join || act == Act::split || act == Act::duplicate;
}
/// A rank that fails at it on its own ends its communicator with coll_comm_abort.
bool may_abort(Act act) {
  return act == Act::stream || act == Act::group || act == Act::duplicate;
}

struct Scenario {
  Act act = Act::join;
  int victim = 0;  ///< whose allocations fail
  Mode mode = Mode::one;
  const char* transports = "shm";
};

/// What is said of the failure; behind it each rank names the call that it was in itself.
std::string without_call(const Word& word) {
  std::string text = word.text.data();
  if (const auto at = text.find(" [in "); at != std::string::npos) {
    text.erase(at, text.find(']', at) + 1 - at);
  }
  return text;
}

std::string name_of(const ::testing::TestParamInfo<Scenario>& given) {
  constexpr std::array kActs{"join", "reduce", "stream", "group", "split", "duplicate", "leave"};
  const Scenario& one = given.param;
  return std::string(kActs[static_cast<std::size_t>(one.act)]) + "_rank" +
         std::to_string(one.victim) + (one.mode == Mode::one ? "_one_" : "_all_from_there_") +
         one.transports;
}

coll_status_t perform(Act act, Rank& self, const coll_unique_id_t& id) {
  switch (act) {
    case Act::join:
      return self.join(id);
    case Act::reduce:
      return self.reduce(nullptr);
    case Act::stream:
      return self.reduce_on_stream();
    case Act::group:
      return self.exchange();
    case Act::split:
      return self.split();
    case Act::duplicate:
      return self.duplicate();
    case Act::leave:
      return self.leave();
  }
  return COLL_INTERNAL;
}

/// One trial, in one of the processes: the n-th allocation of the act fails. What is wrong, or "".
std::string trial(const Scenario& scenario, Rank& self, Board& board, long which) {
  const bool victim = self.rank == scenario.victim;
  if (self.rank == 0 && coll_get_unique_id(&board.id) != COLL_SUCCESS) return "no unique id";
  board.meet();
  if (scenario.act != Act::join && self.join(board.id) != COLL_SUCCESS) return "joining failed";
  board.meet();
  if (victim) FailingAllocations::arm(which, scenario.mode);
  const coll_status_t code = perform(scenario.act, self, board.id);
  if (victim) board.fired = FailingAllocations::disarm();
  Board::note(board.act[static_cast<std::size_t>(self.rank)], code);
  if (scenario.act == Act::leave) {
    board.meet();
    return code == COLL_SUCCESS ? "" : "leaving failed";
  }
  coll_status_t next = COLL_OUT_OF_RESOURCES;
  if (self.comm != nullptr) {
    // The first one may be over where the failure has not come yet; of a second one none can be.
    [[maybe_unused]] const coll_status_t unknown = coll_barrier(self.comm, nullptr);
    next = coll_barrier(self.comm, nullptr);
    Board::note(board.next[static_cast<std::size_t>(self.rank)], next);
  } else {
    board.next[static_cast<std::size_t>(self.rank)] =
        board.act[static_cast<std::size_t>(self.rank)];
  }
  board.meet();
  const Word &mine = board.act[static_cast<std::size_t>(self.rank)],
             &my_next = board.next[static_cast<std::size_t>(self.rank)],
             &others = board.act[static_cast<std::size_t>(1 - self.rank)],
             &others_next = board.next[static_cast<std::size_t>(1 - self.rank)];
  std::string wrong;
  const bool failed = mine.code != COLL_SUCCESS || others.code != COLL_SUCCESS;
  if (failed && next == COLL_SUCCESS) wrong = "the barrier after a failure succeeds";
  if ((my_next.code == COLL_SUCCESS) != (others_next.code == COLL_SUCCESS)) {
    wrong = "the ranks do not fail together";
  }
  const bool makes = makes_communicator(scenario.act);
  if (code == COLL_SUCCESS && !makes && !self.reduced()) wrong = "a wrong sum";
  if (!board.fired && failed) wrong = "a failure without a reason";
  if (scenario.act == Act::duplicate && (code == COLL_DEADLINE || next == COLL_DEADLINE)) {
    wrong = "it waits for a rank that does not come";
  }
  if (victim && !may_abort(scenario.act) && code != COLL_SUCCESS && code != COLL_OUT_OF_RESOURCES &&
      code != COLL_PEER_LOST) {
    // (That its connection closed may be known before the reason.)
    wrong = "another failure than out of resources";
  }
  if (!makes && scenario.mode == Mode::one && failed &&
      without_call(my_next) != without_call(others_next)) {
    wrong = "the ranks say different things";
  }
  if (!wrong.empty()) {
    wrong += std::string("\n  act: ") + coll_status_name(mine.code) + ": " + mine.text.data() +
             "\n  next: " + coll_status_name(my_next.code) + ": " + my_next.text.data();
  }
  return wrong;
}

class OutOfMemoryOfARank : public ::testing::TestWithParam<Scenario> {};

TEST_P(OutOfMemoryOfARank, FailsLikeAnythingElse) {
  NEEDS_FAILING_ALLOCATIONS();
  static bool failed_before = false;
  // A rank that ends leaves the other one waiting for its alarm: once is enough.
  ASSERT_FALSE(failed_before) << "not run, since an earlier one has failed";
  const Scenario scenario = GetParam();
  const std::uint64_t seed = coll::test::test_seed();
  const int pairs = scenario.act == Act::join ? kPairs : 1;
  const std::array<SharedBoard, kPairs> boards;
  RankProcesses ranks(pairs * kRanks, [&](int process) {
    const int pair = process / kRanks, rank = process % kRanks;
    Board& board = *boards[static_cast<std::size_t>(pair)];
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(pair));
    Rank self;
    self.rank = rank;
    self.transports = scenario.transports;
    if (rank != scenario.victim) {
      (scenario.act == Act::join ? self.connect_s : self.part_connect_s) = kLonely_s;
    }
    int bad = 0;
    long trials = 0;
    for (long which = 1 + pair; bad < 3; ++trials) {
      alarm(kTrial_s);
      const std::string wrong = trial(scenario, self, board, which);
      if (!wrong.empty()) {
        ++bad;
        std::cerr << "rank " << rank << ", allocation " << which << " of rank " << scenario.victim
                  << ": " << wrong << "\n";
      }
      board.meet();  // nobody looks at the words any more
      const bool more = board.fired;
      if (self.leave() != COLL_SUCCESS) ++bad;
      board.meet();
      if (!more) break;
      const std::uint64_t most = scenario.act == Act::join        ? 6  // a sample
                                 : scenario.act == Act::split     ? 24
                                 : scenario.act == Act::duplicate ? 4
                                                                  : 1;
      const auto step = static_cast<long>(1 + random() % (kFewer * most));
      which += pairs * (scenario.mode == Mode::one ? step : step + which / 8);
    }
    if (rank == scenario.victim) std::cerr << trials << " trials\n";
    return std::min(bad, 100);
  });
  ranks.expect_all_good();
  failed_before = HasFailure();
}

/// Much is made once in a process, the first time that a rank joins; and once it leaves, its plans
/// are written to a file.
TEST(OutOfMemory, InAProcessThatJoinsForTheFirstTimeEndsNothing) {
  NEEDS_FAILING_ALLOCATIONS();
  const coll::test::TemporaryFolder folder;
  std::mt19937_64 random(coll::test::test_seed());
  for (const Mode mode : {Mode::one, Mode::all_from_there}) {
    int fired = 1;
    for (long which = 1; fired == 1; which += static_cast<long>(1 + random() % (kFewer * 4))) {
      RankProcesses alone(1, [&](int /*rank*/) {
        setenv("COLL_PLANS", (folder.path() + "/plans").c_str(), 1);  // NOLINT: one thread
        coll_unique_id_t id{};
        if (coll_get_unique_id(&id) != COLL_SUCCESS) return 2;
        FailingAllocations::arm(which, mode);
        coll_comm_t comm = nullptr;
        if (coll_comm_init_rank(&comm, 1, &id, 0, nullptr) == COLL_SUCCESS) {
          static_cast<void>(coll_barrier(comm, nullptr));
          if (coll_comm_destroy(comm) != COLL_SUCCESS) return 2;
        }
        return FailingAllocations::disarm() ? 1 : 0;
      });
      const int status = alone.wait_for(0);
      ASSERT_TRUE(WIFEXITED(status)) << "allocation " << which << ", signal " << WTERMSIG(status);
      fired = WEXITSTATUS(status);
      ASSERT_LE(fired, 1) << "allocation " << which;
    }
  }
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all;
  for (const Act act :
       {Act::join, Act::reduce, Act::stream, Act::group, Act::split, Act::duplicate, Act::leave}) {
    for (const int victim : {0, 1}) {
      for (const Mode mode : {Mode::one, Mode::all_from_there}) {
        for (const char* transports : {"shm", "tcp"})
          all.push_back({act, victim, mode, transports});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OutOfMemoryOfARank, ::testing::ValuesIn(scenarios()), name_of);

}  // namespace
}  // namespace collectives::testing
