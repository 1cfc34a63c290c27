// SPDX-License-Identifier: Apache-2.0
// Who waits long leaves the cores to others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "rank_processes.hpp"

namespace collectives::testing {
namespace {

constexpr double kLate_s = 1;
/// Of a core. Who spins takes all of it, who looks every millisecond a fiftieth, and more with a
/// sanitizer.
constexpr double kMost = 0.2;

void sleep_for(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  while (nanosleep(&time, &time) != 0) {
  }
}

struct Case {
  const char* transports;
  int size;
  std::size_t count;  ///< elements of the all_reduce; 0: a barrier
  bool streamed = false;
};

class LongWait : public ::testing::TestWithParam<Case> {};

int run(const std::string& place, int rank) {
  const Case& c = LongWait::GetParam();
  const coll_comm_t comm = join(place, c.transports, c.size, rank);
  if (comm == nullptr) return 1;
  coll_stream_t stream = nullptr;
  if (c.streamed && coll_stream_create(&stream) != COLL_SUCCESS) return 2;
  std::vector<float> data(c.count, 1);
  const auto call = [&] {
    const coll_status_t status = c.count == 0
                                     ? coll_barrier(comm, stream)
                                     : coll_all_reduce(data.data(), data.data(), c.count,
                                                       COLL_FLOAT32, COLL_SUM, comm, stream);
    return status == COLL_SUCCESS &&
           (stream == nullptr || coll_stream_synchronize(stream) == COLL_SUCCESS);
  };
  for (int i = 0; i < 3; ++i)
    if (!call()) return 3;
  const double before = processor_s();
  if (rank == c.size - 1) sleep_for(kLate_s);
  if (!call()) return 4;
  const double spent = processor_s() - before;
  std::cout << "rank " << rank << " spent " << spent * 1e3 << " ms on cores\n";
  if (stream != nullptr) coll_stream_destroy(stream);
  coll_comm_destroy(comm);
  return spent < kMost * kLate_s ? 0 : 5;
}

TEST_P(LongWait, CostsLittleProcessorTime) {
  const Meetings meetings;
  RankProcesses ranks(GetParam().size, [&](int rank) { return run(meetings.place(0), rank); });
  ranks.expect_all_good();
}

INSTANTIATE_TEST_SUITE_P(Waits, LongWait,
                         ::testing::Values(Case{"shm", 2, 0, false}, Case{"shm", 2, 2, false},
                                           Case{"shm", 2, 1 << 18, false},
                                           Case{"shm", 4, 1 << 18, false},
                                           Case{"shm", 2, 1 << 18, true}, Case{"tcp", 2, 0, false},
                                           Case{"tcp", 2, 2, false}, Case{"tcp", 2, 1 << 18, false},
                                           Case{"tcp", 4, 0, false}, Case{"tcp", 4, 1 << 18, false},
                                           Case{"tcp", 2, 1 << 18, true}));

}  // namespace
}  // namespace collectives::testing
