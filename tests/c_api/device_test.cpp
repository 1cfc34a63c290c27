// SPDX-License-Identifier: Apache-2.0
// Ranks that name the GPU that they use, as processes on one described host.
#include <gtest/gtest.h>

#include <algorithm>
#include <collectives/collectives.hpp>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "communicator/rank_processes.hpp"

namespace {

using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::wrong;

/// In a process that has not looked at a knob yet.
void describe(const char* host, const char* visible = nullptr) {
  setenv("COLL_TOPOLOGY", host, 1);                                    // NOLINT: one thread
  unsetenv("CUDA_VISIBLE_DEVICES");                                    // NOLINT: one thread
  if (visible != nullptr) setenv("CUDA_VISIBLE_DEVICES", visible, 1);  // NOLINT: one thread
}

coll_status_t join_on(const std::string& place, int size, int rank, const std::string& device,
                      const char* algorithm, coll_comm_t* comm) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = place.c_str();
  config.connect_s = config.deadline_s = 20;
  config.device = device.empty() ? nullptr : device.c_str();
  config.algorithm = algorithm;
  return coll_comm_init(comm, size, rank, &config);
}

std::string explained(coll_comm_t comm) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  call.count = 100'000;
  call.type = COLL_FLOAT32;
  std::vector<char> text(1 << 16);
  size_t length = 0;
  if (coll_comm_explain(comm, &call, text.data(), text.size(), &length) != COLL_SUCCESS) {
    return coll_last_error();
  }
  return text.data();
}

bool lacks(int rank, const std::string& text, const std::string& word) {
  if (text.find(word) != text.npos) return false;
  std::cerr << "rank " << rank << ": no \"" << word << "\" in\n" << text;
  return true;
}

/// Sums whole numbers, which is exact in any order.
bool sums_wrongly(coll_comm_t comm, int size, int rank, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(rank));
  if (wrong(rank, "all_reduce",
            coll_all_reduce(values.data(), values.data(), count, COLL_FLOAT32, COLL_SUM, comm,
                            nullptr),
            COLL_SUCCESS)) {
    return true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = static_cast<float>(static_cast<std::size_t>(size) * i) +
                     static_cast<float>(size * (size - 1)) / 2;
    if (values[i] == sum) continue;
    std::cerr << "rank " << rank << ": " << values[i] << " at " << i << " instead of " << sum
              << "\n";
    return true;
  }
  return false;
}

/// Four GPUs that all have links to each other: two rings through them share no link, but the ranks
/// of one host follow one.
TEST(Device, SaysWhereARankIsAndWhichRingsItFollows) {
  const Meetings meetings;
  int round = 0;
  for (const char* algorithm : {"ring", "chain", "double_binary_tree"}) {
    SCOPED_TRACE(algorithm);
    const std::string place = meetings.place(round++);
    RankProcesses ranks(4, [&](int rank) {
      describe("package:2 core:2 gpu:8 xgmi:all@64GB nic:8@200G", "1,3,5,7");
      coll_comm_t comm = nullptr;
      if (wrong(rank, "join", join_on(place, 4, rank, std::to_string(3 - rank), algorithm, &comm),
                COLL_SUCCESS)) {
        return 1;
      }
      const std::string text = explained(comm);
      int bad = lacks(rank, text, std::string(": ") + algorithm + ",");
      // Rank 0 is on GPU 7, whose NIC is the last one.
      bad += lacks(rank, text, "place of rank " + std::to_string(rank) + ": host 0");
      bad += lacks(rank, text, "rail " + std::to_string(rank));
      bad += lacks(rank, text, "orders: 0 ");
      const std::size_t orders = std::min(text.find("orders:"), text.size());
      if (text.find(';', orders) != text.npos) bad += lacks(rank, text, "a single order");
      for (const std::size_t count : {1U, 1000U, 100000U})
        bad += sums_wrongly(comm, 4, rank, count);
      // A communicator made from it has its places.
      coll_config_t config = COLL_CONFIG_INIT;
      coll_comm_t part = nullptr;
      bad +=
          wrong(rank, "split", coll_comm_split(comm, rank / 2, rank, &config, &part), COLL_SUCCESS);
      bad += lacks(rank, explained(part), "rail " + std::to_string(rank % 2));
      bad += sums_wrongly(part, 2, rank % 2, 1000);
      coll_comm_destroy(part);
      coll_comm_destroy(comm);
      return bad;
    });
    ranks.expect_all_good();
  }
}

/// Each in a process of its own, because a process looks at its host once.
TEST(Device, ThatIsNotThereIsAnErrorThatListsThoseThatAre) {
  struct Case {
    const char *host, *visible, *device, *word;
    coll_status_t status = COLL_INVALID_ARGUMENT;
  };
  const Case cases[] = {
      {"gpu:2", nullptr, "2", "the host has GPUs 0, 1"},
      {"gpu:2", nullptr, "gpu0", "there is no GPU \"gpu0\""},
      {"gpu:2", nullptr, "-1", "there is no GPU"},
      {"gpu:2", "", "0", "CUDA_VISIBLE_DEVICES= hides all GPUs"},
      {"gpu:2", "1", "1", "CUDA_VISIBLE_DEVICES=1"},
      {"gpu:2", "GPU-8932f937", "0", "names it by no number or known UUID; give its bus number"},
      {"gpu:2", nullptr, "0000:0f:00.0", "there is no GPU \"0000:0f:00.0\""},
      {"core:4", nullptr, "0", "the host has no GPUs"},
      {"host:2 gpu:2", nullptr, "0", "describes 2 hosts"},
      {"gpus:2", nullptr, "", "COLL_TOPOLOGY"},
      {"/does/not/exist", nullptr, "", "cannot read topology", COLL_SYSTEM},
  };
  const Meetings meetings;
  RankProcesses ranks(static_cast<int>(std::size(cases)), [&](int number) {
    const Case& each = cases[number];
    describe(each.host, each.visible);
    coll_comm_t comm = nullptr;
    return wrong(number, each.device,
                 join_on(meetings.place(number), 1, 0, each.device, nullptr, &comm), each.status,
                 each.word)
               ? 1
               : 0;
  });
  ranks.expect_all_good();
}

/// Which GPUs a host has is known there alone. So that rank says it to all, and none waits for it.
TEST(Device, ThatIsNotThereOnOneRankFailsAllAlike) {
  const Meetings meetings;
  RankProcesses ranks(3, [&](int rank) {
    describe("gpu:2", rank == 1 ? "0" : nullptr);
    const auto fails = [&](const char* doing, coll_status_t status, const char* name) {
      return wrong(rank, doing, status, COLL_INVALID_ARGUMENT, name) ||
             lacks(rank, coll_last_error(), "CUDA_VISIBLE_DEVICES=0");
    };
    coll_comm_t comm = nullptr;
    int bad = fails("init", join_on(meetings.place(0), 3, rank, "1", nullptr, &comm), "rank 1 on");
    if (wrong(rank, "join", join_on(meetings.place(1), 3, rank, "", nullptr, &comm),
              COLL_SUCCESS)) {
      return 1;
    }
    coll_config_t config = COLL_CONFIG_INIT;
    config.device = "1";
    config.connect_s = 20;
    coll_comm_t part = nullptr;
    bad += fails("split", coll_comm_split(comm, 0, -rank, &config, &part), "rank 1 on");
    if (rank > 0) {  // without the hub: they meet anew
      const int members[] = {2, 1};
      bad += fails("subset", coll_comm_subset(comm, members, 2, &config, &part), "rank 1 on");
    }
    // A join that does not block finds no fault before its thread has looked.
    coll_joining_t joining = nullptr;
    config.joining = &joining;
    if (wrong(rank, "begin", coll_comm_split(comm, 0, rank, &config, &part), COLL_SUCCESS)) {
      return 1;
    }
    bad += fails("wait", coll_joining_wait(joining, 20, &part), "rank 1 on");
    coll_joining_free(joining);
    bad += sums_wrongly(comm, 3, rank, 10);
    coll_comm_destroy(comm);
    return bad;
  });
  ranks.expect_all_good();
}

/// A part has the paths of its communicator, but once a rank is on a GPU all agree anew.
TEST(Device, OfOneRankSeatsAllRanksOfAPart) {
  const Meetings meetings;
  RankProcesses ranks(3, [&](int rank) {
    if (rank == 2) describe("gpu:4 nic:2@200G");
    coll_comm_t comm = nullptr;
    if (wrong(rank, "join", join_on(meetings.place(0), 3, rank, "", nullptr, &comm),
              COLL_SUCCESS)) {
      return 1;
    }
    int bad = 0;
    for (const bool first : {true, false}) {  // is the rank on a GPU the one that looks?
      coll_config_t config = COLL_CONFIG_INIT;
      config.connect_s = 20;
      if (rank == 2) config.device = "3";
      coll_comm_t part = nullptr;
      if (wrong(rank, "split", coll_comm_split(comm, 0, first ? -rank : rank, &config, &part),
                COLL_SUCCESS)) {
        return 1;
      }
      const int place = first ? 2 - rank : rank;
      if (first) bad += lacks(rank, explained(part), "place of rank " + std::to_string(place));
      bad += sums_wrongly(part, 3, place, 10'000);
      // A duplicate without the GPU is no equal one: all find their places anew.
      coll_config_t cores = COLL_CONFIG_INIT;
      cores.device = "";
      coll_comm_t copy = nullptr;
      coll_stats_t before = COLL_STATS_INIT, after = COLL_STATS_INIT;
      bad += wrong(rank, "stats", coll_comm_stats(part, &before), COLL_SUCCESS);
      bad += wrong(rank, "duplicate", coll_comm_duplicate(part, &cores, &copy), COLL_SUCCESS);
      bad += wrong(rank, "stats", coll_comm_stats(part, &after), COLL_SUCCESS);
      bad += after.operations - before.operations == 3 ? 0 : 1;  // exchanges
      bad += sums_wrongly(copy, 3, place, 100);
      coll_comm_destroy(copy);
      coll_comm_destroy(part);
    }
    // Those without a device would have the old paths.
    coll_config_t config = COLL_CONFIG_INIT;
    if (rank == 2) config.device = "7";
    coll_comm_t part = nullptr;
    bad += wrong(rank, "split", coll_comm_split(comm, 0, 0, &config, &part), COLL_INVALID_ARGUMENT,
                 "rank 2 on");
    coll_comm_destroy(comm);
    return bad;
  });
  ranks.expect_all_good();
}

}  // namespace
