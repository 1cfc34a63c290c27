// SPDX-License-Identifier: Apache-2.0
// The emulated verbs fail where they are told to, and tell what was misused or left behind.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "emulation/verbs/emulated_side.hpp"

namespace coll::test {
namespace {

using EmulatedFaultsTest = EmulatedConnection;

TEST_F(EmulatedFaultsTest, APortThatIsDownHoldsWork) {
  verbs.set_port(1, false);
  EXPECT_TRUE(is_readable(there.context->async_fd));
  EXPECT_FALSE(is_readable(here.context->async_fd));
  ibv_async_event event{};
  EXPECT_EQ(here.table.get_async_event(there.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
  here.table.ack_async_event(&event);
  EXPECT_EQ(here.table.get_async_event(there.context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_port_attr port{};
  EXPECT_EQ(here.table.query_port(there.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);

  EXPECT_EQ(here.write(there, 1), 0);
  EXPECT_EQ(here.write(there, 2), 0);
  EXPECT_EQ(there.write(here, 3), 0);
  EXPECT_EQ(here.poll_all() + there.poll_all(), "");
  verbs.set_port(1, true);
  EXPECT_EQ(here.poll_all(), "1 ok, 2 ok, 100 ok");
  EXPECT_EQ(there.poll()->imm_data, 1001U);
  EXPECT_EQ(there.poll()->imm_data, 1002U);
  EXPECT_EQ(here.table.get_async_event(there.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  here.table.ack_async_event(&event);
  EXPECT_FALSE(is_readable(there.context->async_fd));
}

TEST_F(EmulatedFaultsTest, HeldWorkRunsOutOfRetries) {
  verbs.hold(0);
  EXPECT_FALSE(is_readable(here.context->async_fd));
  EXPECT_EQ(here.say(1), 0);
  EXPECT_EQ(here.write(there, 2), 0);
  verbs.exceed_retries(1);
  EXPECT_EQ(here.poll_all().substr(0, 23), "1 unanswered, 2 flushed");
  EXPECT_EQ(here.state(), IBV_QPS_ERR);
  EXPECT_EQ(there.state(), IBV_QPS_RTS) << "it has sent nothing";
  verbs.go_on(0);
  EXPECT_EQ(there.poll_all(), "");
}

TEST_F(EmulatedFaultsTest, AnAcknowledgementIsLost) {
  verbs.lose_ack(here.pair->qp_num);
  here.memory[0] = std::byte{9};
  EXPECT_EQ(here.write(there, 1), 0);
  EXPECT_EQ(there.memory[0], std::byte{9});
  EXPECT_EQ(there.poll_all(), "100 ok");
  EXPECT_EQ(here.poll_all().substr(0, 12), "1 unanswered");
  EXPECT_EQ(here.state(), IBV_QPS_ERR);
}

TEST_F(EmulatedFaultsTest, CallsFailWhereTheyAreToldTo) {
  verbs.fail("ibv_post_send", ENOBUFS, 1);
  verbs.fail("ibv_poll_cq", EIO);
  verbs.fail("ibv_alloc_pd", ENODEV);
  EXPECT_EQ(verbs.unmet(), 3);
  EXPECT_EQ(here.say(1), 0);
  EXPECT_EQ(here.say(2), ENOBUFS);
  EXPECT_EQ(here.say(3), 0);
  ibv_wc made{};
  EXPECT_EQ(here.table.poll_cq(here.queue, 1, &made), -EIO);
  EXPECT_EQ(here.table.poll_cq(here.queue, 1, &made), 0);
  EXPECT_EQ(verbs.unmet(), 1);
  EXPECT_EQ(here.table.alloc_pd(here.context), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(there.poll_all(), "100 ok, 101 ok");
  EXPECT_DEATH(verbs.fail("ibv_reg_me", EIO), "no verb \"ibv_reg_me\" can be made to fail");
}

TEST_F(EmulatedFaultsTest, ALinkBreaksJustBeforeACall) {
  verbs.before(
      "ibv_post_send", [&] { verbs.hold(0); }, 1);
  EXPECT_EQ(here.say(1), 0);
  EXPECT_EQ(here.say(2), 0);
  EXPECT_EQ(there.poll_all(), "100 ok");
  verbs.go_on(0);
  EXPECT_EQ(there.poll_all(), "101 ok");
}

TEST_F(EmulatedFaultsTest, AFullCompletionQueueEndsTheTest) {
  EXPECT_EQ(there.to_state(IBV_QPS_ERR), 0);
  for (int i = 4; i < EmulatedSide::kEntries; ++i) {
    const std::string receives = there.poll_all();
    EXPECT_EQ(there.receive(1), 0);
  }
  EXPECT_EQ(there.poll_all(), "1 flushed");
  const auto flood = [&] {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = here.table.create_cq(here.context, 1, nullptr, nullptr, 0);
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {1, 2, 1, 1, 0};
    here.pair = here.table.create_qp(here.domain, &wanted);
    here.to_init();
    here.receive(1);
    here.receive(2);
    here.to_state(IBV_QPS_ERR);
  };
  EXPECT_DEATH(flood(), "a completion queue of 1 entries overflows");
}

TEST(EmulatedFaultsLeft, IsToldByName) {
  EXPECT_NONFATAL_FAILURE(
      {
        EmulatedVerbs verbs(1);
        int count = 0;
        ibv_device** const list = verbs.table().get_device_list(&count);
        ibv_context* const context = verbs.table().open_device(list[0]);
        ibv_pd* const domain = verbs.table().alloc_pd(context);
        EXPECT_NE(verbs.table().reg_mr(domain, list, 8, 0), nullptr);
        EXPECT_EQ(verbs.table().dealloc_pd(domain), EBUSY);
        EXPECT_EQ(verbs.table().close_device(context), EBUSY);
        verbs.table().free_device_list(list);
      },
      "\"1 memory regions, 1 protection domains, 1 contexts\"");
}

TEST(EmulatedFaultsLeft, AQueueWithEventsThatWereNotAcknowledged) {
  EmulatedVerbs verbs(2);
  std::optional<EmulatedSide> one(std::in_place, verbs, 0);
  EXPECT_EQ(one->table.req_notify_cq(one->queue, 0), 0);
  EXPECT_EQ(one->to_init(), 0);
  EXPECT_EQ(one->receive(1), 0);
  EXPECT_EQ(one->to_state(IBV_QPS_ERR), 0);
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  EXPECT_EQ(one->table.get_cq_event(one->channel, &queue, &cookie), 0);
  EXPECT_NONFATAL_FAILURE(one.reset(), "ibv_destroy_cq hangs: 1 events");
}

TEST(EmulatedFaultsLeft, ADeviceEventThatWasNotAcknowledged) {
  EXPECT_NONFATAL_FAILURE(
      {
        EmulatedVerbs verbs(1);
        const EmulatedSide one(verbs, 0);
        verbs.set_port(0, false);
        ibv_async_event event{};
        EXPECT_EQ(one.table.get_async_event(one.context, &event), 0);
      },
      "1 unacknowledged device events");
}

}  // namespace
}  // namespace coll::test
