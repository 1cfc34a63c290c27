// SPDX-License-Identifier: Apache-2.0
// What events refuse, and their C++ face.
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <string>
#include <utility>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

TEST(EventRules, IsRefusedWhereAnOpenGroupHasOperationsOnTheStream) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_stream_t stream = make_stream();
    coll_stream_t other = make_stream();
    coll_event_t event = make_event();
    const auto refused = [](coll_status_t status, const char* function) {
      EXPECT_EQ(status, COLL_INVALID_USAGE);
      const std::string text = coll_last_error();
      EXPECT_NE(text.find(function), std::string::npos) << text;
      EXPECT_NE(text.find("end the group first"), std::string::npos) << text;
    };
    const Values in(5, 2);
    Values out(5);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_event_record(event, stream))) << "the group has nothing there yet";
    EXPECT_TRUE(ok(all_reduce(in, out, comm, stream)));
    refused(coll_event_record(event, stream), "coll_event_record");
    refused(coll_stream_wait_event(stream, event), "coll_stream_wait_event");
    EXPECT_TRUE(ok(coll_event_record(event, other)));
    EXPECT_TRUE(ok(coll_event_synchronize(event)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_TRUE(ok(coll_event_record(event, stream)));
    EXPECT_TRUE(ok(coll_event_synchronize(event)));
    EXPECT_EQ(out, in);
    EXPECT_TRUE(ok(coll_event_destroy(event)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_stream_destroy(other)));
  });
}

TEST(EventRules, RefusesNull) {
  coll_stream_t stream = make_stream();
  coll_event_t event = make_event();
  const auto refused = [](coll_status_t status, const char* words) {
    EXPECT_EQ(status, COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find(words), std::string::npos) << coll_last_error();
  };
  refused(coll_event_create(nullptr), "coll_event_create: event is null");
  refused(coll_event_destroy(nullptr), "event is null");
  refused(coll_event_record(nullptr, stream), "event is null");
  refused(coll_event_record(event, nullptr), "stream is null");
  refused(coll_stream_wait_event(nullptr, event), "stream is null");
  refused(coll_stream_wait_event(stream, nullptr), "event is null");
  refused(coll_event_query(nullptr), "event is null");
  refused(coll_event_synchronize(nullptr), "event is null");
  EXPECT_TRUE(ok(coll_event_query(event))) << "never recorded";
  EXPECT_TRUE(ok(coll_event_synchronize(event)));
  EXPECT_TRUE(ok(coll_stream_wait_event(stream, event)));
  EXPECT_TRUE(ok(coll_stream_query(stream)));
  EXPECT_TRUE(ok(coll_event_destroy(event)));
  EXPECT_TRUE(ok(coll_stream_destroy(stream)));
}

TEST(CppEvent, OrdersStreams) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    auto recorded = Stream::create();
    auto waiting = Stream::create();
    auto event = Event::create();
    ASSERT_TRUE(recorded && waiting && event);
    EXPECT_TRUE(*event->finished());
    Values values(kLong, rank), sums(kLong);
    ASSERT_TRUE(ok(all_reduce(values, values, comm, recorded->get())));
    ASSERT_TRUE(event->record(*recorded));
    ASSERT_TRUE(waiting->wait(*event));
    ASSERT_TRUE(ok(all_reduce(values, sums, comm, waiting->get())));
    Event moved = std::move(*event);
    EXPECT_TRUE(moved.synchronize());
    EXPECT_TRUE(*moved.finished());
    EXPECT_EQ(event->record(*recorded).error().code, COLL_INVALID_ARGUMENT) << "moved from";
    ASSERT_TRUE(waiting->synchronize());
    EXPECT_EQ(sums, Values(kLong, 2));
  });
}

}  // namespace
}  // namespace collectives::testing
