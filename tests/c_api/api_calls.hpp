// SPDX-License-Identifier: Apache-2.0
// Short names for the C ABI's calls on vectors of int64.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace collectives::testing {

using Values = std::vector<std::int64_t>;

constexpr std::size_t kLong = 1 << 20;  ///< elements: no slot holds the message

inline ::testing::AssertionResult ok(coll_status_t status) {
  if (status == COLL_SUCCESS) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << coll_status_name(status) << ": " << coll_last_error();
}

inline coll_status_t send(const Values& values, int peer, coll_comm_t comm,
                          coll_stream_t stream = nullptr) {
  return coll_send(values.data(), values.size(), COLL_INT64, peer, comm, stream);
}
inline coll_status_t recv(Values& values, int peer, coll_comm_t comm,
                          coll_stream_t stream = nullptr) {
  return coll_recv(values.data(), values.size(), COLL_INT64, peer, comm, stream);
}
inline coll_status_t all_reduce(const Values& in, Values& out, coll_comm_t comm,
                                coll_stream_t stream = nullptr) {
  return coll_all_reduce(in.data(), out.data(), in.size(), COLL_INT64, COLL_SUM, comm, stream);
}

/// A call without buffers, which is enough to explain or predict it.
inline coll_call_t asked(coll_operation_t operation, std::size_t count,
                         coll_dtype_t type = COLL_INT64, int root = 0) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.count = count;
  call.type = type;
  call.root = root;
  return call;
}
inline std::string explained(coll_comm_t comm, const coll_call_t& call) {
  char text[8192];
  EXPECT_TRUE(ok(coll_comm_explain(comm, &call, text, sizeof text, nullptr)));
  return text;
}

inline coll_prediction_t predicted(coll_comm_t comm, const coll_call_t& call) {
  coll_prediction_t prediction = COLL_PREDICTION_INIT;
  EXPECT_TRUE(ok(coll_comm_predict(comm, &call, &prediction)));
  return prediction;
}

inline coll_stats_t stats_of(coll_comm_t comm) {
  coll_stats_t stats = COLL_STATS_INIT;
  EXPECT_TRUE(ok(coll_comm_stats(comm, &stats)));
  return stats;
}

inline coll_work_t start(const coll_call_t& call, coll_comm_t comm,
                         coll_stream_t stream = nullptr) {
  coll_work_t work = nullptr;
  EXPECT_TRUE(ok(coll_start(&call, comm, stream, &work)));
  return work;
}
/// Waits for the operation, frees the handle, and says how it ended.
inline coll_status_t finish(coll_work_t work) {
  const coll_status_t status = coll_work_wait(work, -1);
  EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  return status;
}

inline coll_stream_t make_stream() {
  coll_stream_t stream = nullptr;
  EXPECT_TRUE(ok(coll_stream_create(&stream)));
  return stream;
}

inline coll_event_t make_event() {
  coll_event_t event = nullptr;
  EXPECT_TRUE(ok(coll_event_create(&event)));
  return event;
}

}  // namespace collectives::testing
