// SPDX-License-Identifier: Apache-2.0
// Makes one communicator of threads in several processes.
#include "coll_perf/coll_perf_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "process_end.hpp"

namespace perf {
namespace {

/// What the ranks of this process have to know to join.
struct Meeting {
  coll_unique_id_t id{};
  int process = 0, processes = 1;
};

void require(const Options& options, int process, coll_status_t status, const char* what) {
  if (status == COLL_SUCCESS) return;
  end_process(
      fmt::format("{}: process {}: {}: {}\n", options.program, process, what, coll_last_error()));
}

/// Processes meet as the launcher says, once, to learn the id that all ranks join by.
Meeting meet(const Options& options) {
  Meeting meeting;
  if (launched_rank() < 0) {
    require(options, 0, coll_get_unique_id(&meeting.id), "making a unique id");
    return meeting;
  }
  const auto check = [&](coll_status_t status, const char* what) {
    require(options, meeting.process, status, what);
  };
  meeting.process = launched_rank();  // for messages until the library says it
  coll_comm_t comm = nullptr;
  check(coll_comm_init_env(&comm, nullptr), "joining the other processes");
  check(coll_comm_rank(comm, &meeting.process), "asking for the process");
  check(coll_comm_size(comm, &meeting.processes), "asking for the number of processes");
  std::int64_t most[2] = {options.ngpus, -options.ngpus};
  check(coll_all_reduce(most, most, 2, COLL_INT64, COLL_MAX, comm, nullptr), "comparing -g");
  if (most[0] != -most[1])
    end_process(
        meeting.process != 0
            ? ""
            : fmt::format("{}: -g is {} in one process and {} in another: give all the same\n",
                          options.program, -most[1], most[0]));
  if (meeting.process == 0) check(coll_get_unique_id(&meeting.id), "making a unique id");
  check(coll_broadcast(&meeting.id, &meeting.id, sizeof meeting.id, COLL_UINT8, 0, comm, nullptr),
        "telling the unique id");
  check(coll_comm_destroy(comm), "leaving the other processes");
  return meeting;
}

}  // namespace

int run_ranks(const Options& options, const std::function<int(const Seat&)>& rank) {
  if (options.ngpus == 1) return rank(Seat{});
  const Meeting meeting = meet(options);
  const int here = options.ngpus;
  std::vector<int> codes(static_cast<std::size_t>(here), 0);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < here; ++i)
      threads.emplace_back([&, i] {
        codes[static_cast<std::size_t>(i)] =
            rank({i, here, meeting.process * here + i, meeting.processes * here, &meeting.id});
      });
  }
  return *std::max_element(codes.begin(), codes.end());
}

}  // namespace perf
