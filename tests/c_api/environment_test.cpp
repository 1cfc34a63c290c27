// SPDX-License-Identifier: Apache-2.0
// What the environment says to the library as users link it. Every rank is a process, since a
// process reads its knobs once.
#include <gtest/gtest.h>
#include <sched.h>

#include <collectives/collectives.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "api_calls.hpp"
#include "communicator/rank_processes.hpp"

namespace {

using collectives::testing::asked;
using collectives::testing::Meetings;
using collectives::testing::RankProcesses;

void set(const char* name, const std::string& value) {
  setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

TEST(Environment, ARankThatFailedByItselfMeetsThoseAtTheirFirstTry) {
  const Meetings meetings;
  RankProcesses ranks(2, [&](int rank) {
    set("COLL_RANK", std::to_string(rank));
    set("COLL_SIZE", "2");
    set("COLL_RENDEZVOUS", meetings.place(0));
    coll_config_t config = COLL_CONFIG_INIT;
    config.connect_s = 20;
    config.algorithm = "none that exists";
    coll_comm_t comm = nullptr;
    if (rank == 1 && coll_comm_init_env(&comm, &config) == COLL_SUCCESS) return 1;
    config.algorithm = nullptr;
    for (int time = 0; time < 2; ++time) {
      if (coll_comm_init_env(&comm, &config) == COLL_SUCCESS) continue;
      std::cerr << coll_last_error() << "\n";
      return 2;
    }
    return 0;
  });
  ranks.expect_all_good();
}

TEST(Environment, ATinySliceIsRoundedUpAndNotTheDefault) {
  RankProcesses ranks(1, [&](int) {
    set("COLL_RANK", "0");
    set("COLL_SIZE", "1");
    set("COLL_SLICE_BYTES", "1");
    coll_comm_t comm = nullptr;
    if (coll_comm_init_env(&comm, nullptr) != COLL_SUCCESS) return 1;
    char text[4096];
    const coll_call_t call = asked(COLL_ALL_REDUCE, 1'000'000, COLL_FLOAT32);
    if (coll_comm_explain(comm, &call, text, sizeof text, nullptr) != COLL_SUCCESS) {
      return 1;
    }
    return std::strstr(text, "slices of 64 bytes") != nullptr ? 0 : 2;
  });
  ranks.expect_all_good();
}

/// Is this thread of the process kept on that one processor?
bool runs_on(const std::string& thread, int processor) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != thread) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    const int id = std::stoi(task.path().filename());
    return sched_getaffinity(id, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
           CPU_ISSET(static_cast<std::size_t>(processor), &set);
  }
  return false;
}

TEST(Environment, TheProgressThreadStaysOnTheKnobsProcessors) {
  const std::string here = std::to_string(sched_getcpu());
  const std::string asked_for[] = {here, "none", "1023", here + ", 0", here + "-"};
  RankProcesses ranks(5, [&](int rank) {
    const std::string& processors = asked_for[rank];
    set("COLL_PROGRESS_CPUS", processors);
    coll_stream_t stream = nullptr;
    const coll_status_t status = coll_stream_create(&stream);
    if (rank == 0) {
      const bool stays = runs_on("coll-progress", std::stoi(processors));
      return status == COLL_SUCCESS && stays && coll_stream_destroy(stream) == COLL_SUCCESS ? 0 : 1;
    }
    const std::string knob = "COLL_PROGRESS_CPUS=" + processors;
    return status != COLL_SUCCESS && std::strstr(coll_last_error(), knob.c_str()) != nullptr ? 0
                                                                                             : 2;
  });
  ranks.expect_all_good();
}

/// The knob, unless the config says another one.
TEST(Environment, TheOrderOfSumsIsTheKnobs) {
  RankProcesses ranks(2, [&](int rank) {
    set("COLL_RANK", "0");
    set("COLL_SIZE", "1");
    set("COLL_ORDER", rank == 0 ? "tree" : "sideways");
    coll_comm_t comm = nullptr;
    if (rank == 1) {
      const coll_status_t status = coll_comm_init_env(&comm, nullptr);
      const bool named = std::strstr(coll_last_error(), "COLL_ORDER=sideways") != nullptr;
      return status == COLL_INVALID_ARGUMENT && named ? 0 : 1;
    }
    for (const coll_order_t order : {COLL_ORDER_DEFAULT, COLL_ORDER_ANY}) {
      coll_config_t config = COLL_CONFIG_INIT;
      config.order = order;
      if (coll_comm_init_env(&comm, &config) != COLL_SUCCESS) return 2;
      char text[4096];
      const coll_call_t call = asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32);
      if (coll_comm_explain(comm, &call, text, sizeof text, nullptr) != COLL_SUCCESS) {
        return 3;
      }
      const bool ordered = std::strstr(text, "in the order of the tree") != nullptr;
      if (ordered != (order == COLL_ORDER_DEFAULT)) return 4;
      coll_comm_destroy(comm);
    }
    return 0;
  });
  ranks.expect_all_good();
}

}  // namespace
