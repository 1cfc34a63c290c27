// SPDX-License-Identifier: Apache-2.0
// Failures as fields: of a thread, a communicator, an operation.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <collectives/collectives.hpp>
#include <string>
#include <thread>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

coll_error_info_t last_error() {
  coll_error_info_t info = COLL_ERROR_INFO_INIT;
  EXPECT_TRUE(ok(coll_last_error_info(&info)));
  return info;
}

coll_error_info_t error_of(coll_comm_t comm) {
  coll_error_info_t info = COLL_ERROR_INFO_INIT;
  EXPECT_TRUE(ok(coll_comm_error_info(comm, &info)));
  return info;
}

coll_error_info_t error_of(coll_work_t work) {
  coll_error_info_t info = COLL_ERROR_INFO_INIT;
  EXPECT_TRUE(ok(coll_work_error_info(work, &info)));
  return info;
}

TEST(ErrorInfo, SaysWhatWasRefusedAtTheDoor) {
  EXPECT_EQ(coll_barrier(nullptr, nullptr), COLL_INVALID_ARGUMENT);
  const coll_error_info_t info = last_error();
  EXPECT_EQ(info.code, COLL_INVALID_ARGUMENT);
  EXPECT_EQ(info.rank, -1);
  EXPECT_EQ(info.sequence, 0);
  EXPECT_EQ(info.system_error, 0);
  EXPECT_STREQ(info.text, coll_last_error());
  EXPECT_NE(std::string(info.text).find("comm is null"), std::string::npos) << info.text;
  std::thread([] {
    const coll_error_info_t none = last_error();
    EXPECT_EQ(none.code, COLL_SUCCESS) << "each thread has its own";
    EXPECT_STREQ(none.text, "");
  }).join();
}

TEST(ErrorInfo, HasTheSystemsError) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = "file:///nowhere/at/all";
  config.connect_s = 0.1;
  coll_comm_t comm = nullptr;
  EXPECT_NE(coll_comm_init(&comm, 2, 0, &config), COLL_SUCCESS);
  EXPECT_EQ(last_error().system_error, ENOENT) << last_error().text;
}

TEST(ErrorInfo, CutsALongTextBetweenCharacters) {
  for (const std::string shift : {"", "x"}) {
    std::string place = "nothing://" + shift;
    for (int i = 0; i < 2000; ++i) place += "\xc3\xa9";
    coll_config_t config = COLL_CONFIG_INIT;
    config.rendezvous = place.c_str();
    coll_comm_t comm = nullptr;
    EXPECT_EQ(coll_comm_init(&comm, 2, 0, &config), COLL_INVALID_ARGUMENT);
    const std::string whole = coll_last_error();
    const std::string text = last_error().text;
    EXPECT_EQ(whole.compare(0, text.size(), text), 0);
    ASSERT_GE(text.size(), COLL_ERROR_TEXT_BYTES - 2);
    EXPECT_EQ(text.substr(text.size() - 2), "\xc3\xa9");
  }
}

/// Rank 2 stays away from the second operation. The communicator's deadline is 30 s.
TEST(ErrorInfo, NamesTheRankAndTheOperationOnAllRanks) {
  std::atomic<bool> over{false};
  run_ranks(3, [&](coll_comm_t comm, int rank) {
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    EXPECT_EQ(error_of(comm).code, COLL_SUCCESS);
    EXPECT_STREQ(error_of(comm).text, "");
    const auto check = [&](const coll_error_info_t& info) {
      EXPECT_EQ(info.code, COLL_DEADLINE) << info.text;
      EXPECT_EQ(info.rank, 2) << info.text;
      EXPECT_EQ(info.sequence, 2) << info.text;
      EXPECT_EQ(info.operation, COLL_ALL_REDUCE) << info.text;
      EXPECT_NE(std::string(info.text).find("all_reduce #2"), std::string::npos) << info.text;
    };
    if (rank == 2) {
      over.wait(false);
      while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      return check(error_of(comm));
    }
    const Values in(10, 1);
    Values out(10);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.send = in.data();
    call.recv = out.data();
    call.count = in.size();
    call.type = COLL_INT64;
    call.deadline_s = 2;  // far longer than the two ranks need to issue it
    coll_work_t work = nullptr;
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &work)));
    EXPECT_EQ(coll_work_wait(work, -1), COLL_DEADLINE);
    check(error_of(work));
    check(error_of(comm));
    check(last_error());
    EXPECT_TRUE(ok(coll_work_free(work)));
    over = true;
    over.notify_all();
  });
}

TEST(ErrorInfo, NamesTheRankThatAborted) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    if (rank == 1) {
      EXPECT_TRUE(ok(coll_comm_abort(comm)));
    }
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_ABORTED);
    EXPECT_EQ(error_of(comm).code, COLL_ABORTED);
    EXPECT_EQ(error_of(comm).rank, 1);
    EXPECT_EQ(last_error().rank, 1);
  });
}

TEST(ErrorInfo, OfAnOperationThatRunsAndSucceeds) {
  std::atomic<bool> asked{false};
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    if (rank == 1) asked.wait(false);
    coll_call_t call = COLL_CALL_INIT;
    coll_work_t work = nullptr;
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &work)));
    if (rank == 0) {
      EXPECT_EQ(error_of(work).code, COLL_IN_PROGRESS);
      asked = true;
      asked.notify_all();
    }
    ASSERT_TRUE(ok(coll_work_wait(work, -1)));
    EXPECT_EQ(error_of(work).code, COLL_SUCCESS);
    EXPECT_STREQ(error_of(work).text, "");
    EXPECT_TRUE(ok(coll_work_free(work)));
  });
}

TEST(ErrorInfo, MustBeInitialised) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_error_info_t info{};
    EXPECT_EQ(coll_comm_error_info(comm, &info), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find("COLL_ERROR_INFO_INIT"), std::string::npos);
    EXPECT_EQ(coll_comm_error_info(comm, nullptr), COLL_INVALID_ARGUMENT);
    info = COLL_ERROR_INFO_INIT;
    EXPECT_EQ(coll_comm_error_info(nullptr, &info), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_work_error_info(nullptr, &info), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_last_error_info(nullptr), COLL_INVALID_ARGUMENT);
  });
}

TEST(CppError, HasTheFields) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  auto comm = Communicator::join(id, 1, 0);
  ASSERT_TRUE(comm);
  EXPECT_TRUE(comm->status());
  ASSERT_TRUE(comm->abort());
  const Result<void> failed = comm->barrier();
  EXPECT_EQ(failed.error().code, COLL_ABORTED);
  EXPECT_EQ(failed.error().rank, 0);
  EXPECT_NE(failed.error().text.find("rank 0 aborted"), std::string::npos) << failed.error().text;
  EXPECT_EQ(comm->status().error().code, COLL_ABORTED);
}

}  // namespace
}  // namespace collectives::testing
