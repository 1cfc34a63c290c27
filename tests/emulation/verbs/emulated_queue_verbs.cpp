// SPDX-License-Identifier: Apache-2.0
// The emulated verbs for completions and queue pairs, each as the man page of its name has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "emulation/verbs/emulated_fabric.hpp"
#include "emulation/verbs/emulated_objects.hpp"

namespace coll::test {
namespace {

// --- completions

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  EmulatedCall call("ibv_create_comp_channel");
  if (call.error() != 0) return null_for<ibv_comp_channel>(call.error());
  EmulatedChannel& made = keep(call->channels);
  made.context = context;
  made.fd = made.bell.fd();
  ++of(context).uses;
  return &made;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  EmulatedCall call("ibv_destroy_comp_channel");
  if (call.error() != 0) return call.error();
  if (channel->refcnt > 0) return EBUSY;
  --of(channel->context).uses;
  destroy(call->channels, of(channel));
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                  int vector) {
  EmulatedCall call("ibv_create_cq");
  if (call.error() != 0) return null_for<ibv_cq>(call.error());
  if (entries < 1 || entries > EmulatedFabric::kMostEntries || vector != 0)
    return null_for<ibv_cq>(EINVAL);
  EmulatedQueue& made = keep(call->queues);
  made.entries = EmulatedRing<EmulatedCompletion>(static_cast<std::size_t>(entries));
  made.context = context;
  made.channel = channel;
  made.cq_context = cookie;
  made.cqe = entries;
  ++of(context).uses;
  if (channel != nullptr) ++channel->refcnt;
  return &made;
}

int destroy_cq(ibv_cq* queue) {
  EmulatedCall call("ibv_destroy_cq");
  if (call.error() != 0) return call.error();
  EmulatedQueue& gone = of(queue);
  if (gone.uses > 0) return EBUSY;
  if (gone.unacknowledged > 0)
    ADD_FAILURE() << "ibv_destroy_cq hangs: " << gone.unacknowledged
                  << " events were taken and not acknowledged (ibv_ack_cq_events)";
  --of(queue->context).uses;
  if (queue->channel != nullptr) {
    EmulatedChannel& channel = of(queue->channel);
    --channel.refcnt;
    for (std::size_t i = std::erase(channel.events, &gone); i > 0; --i) channel.bell.take_one();
  }
  destroy(call->queues, gone);
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** cookie) {
  EmulatedCall call("ibv_get_cq_event");
  if (call.error() != 0) return minus_one_for(call.error());
  EmulatedChannel& from = of(channel);
  if (from.events.empty()) return minus_one_for(EAGAIN);
  EmulatedQueue& first = *from.events.front();
  from.events.pop_front();
  from.bell.take_one();
  ++first.unacknowledged;
  *queue = &first;
  *cookie = first.cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* queue, unsigned count) {
  EmulatedCall call("");
  EXPECT_LE(count, of(queue).unacknowledged) << "ibv_ack_cq_events of events that were not taken";
  of(queue).unacknowledged -= std::min(count, of(queue).unacknowledged);
}

int req_notify_cq(ibv_cq* queue, int solicited_only) {
  EmulatedCall call("ibv_req_notify_cq");
  if (call.error() != 0) return call.error();
  using Armed = EmulatedQueue::Armed;
  Armed& armed = of(queue).armed;
  if (solicited_only == 0) armed = Armed::any;
  if (armed == Armed::no) armed = Armed::solicited;
  return 0;
}

int poll_cq(ibv_cq* queue, int entries, ibv_wc* completions) {
  EmulatedCall call("ibv_poll_cq");
  ++call->counts.poll_calls;
  if (call.error() != 0) return -call.error();
  return call->poll(of(queue), entries, completions);
}

// --- queue pairs

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  EmulatedCall call("ibv_create_qp");
  if (call.error() != 0) return null_for<ibv_qp>(call.error());
  const ibv_qp_cap& cap = wanted->cap;
  const bool allowed = wanted->qp_type == IBV_QPT_RC && wanted->srq == nullptr &&
                       wanted->send_cq != nullptr && wanted->recv_cq != nullptr &&
                       cap.max_send_wr <= EmulatedFabric::kMostWork &&
                       cap.max_recv_wr <= EmulatedFabric::kMostWork &&
                       cap.max_send_sge <= EmulatedSend::kMostPieces &&
                       cap.max_recv_sge <= EmulatedSend::kMostPieces &&
                       cap.max_inline_data <= EmulatedSend::kMostInline;
  if (!allowed) return null_for<ibv_qp>(EINVAL);
  auto made = std::make_unique<EmulatedPair>();
  made->sends = EmulatedRing<EmulatedSend>(cap.max_send_wr);
  made->receives = EmulatedRing<EmulatedReceive>(cap.max_recv_wr);
  made->context = domain->context;
  made->qp_context = wanted->qp_context;
  made->pd = domain;
  made->send_cq = wanted->send_cq;
  made->recv_cq = wanted->recv_cq;
  made->qp_num = call->next_pair++;
  made->qp_type = IBV_QPT_RC;
  made->made = *wanted;
  ++of(domain).uses;
  ++of(made->send_cq).uses;
  ++of(made->recv_cq).uses;
  return (call->pairs[made->qp_num] = std::move(made)).get();
}

int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  EmulatedCall call("ibv_modify_qp");
  return call.error() != 0 ? call.error() : call->modify(of(pair), *attributes, mask);
}

int query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int, ibv_qp_init_attr* made) {
  EmulatedCall call("ibv_query_qp");
  if (call.error() != 0) return call.error();
  *attributes = of(pair).set;
  attributes->qp_state = attributes->cur_qp_state = pair->state;
  attributes->cap = of(pair).made.cap;
  *made = of(pair).made;
  return 0;
}

int destroy_qp(ibv_qp* pair) {
  EmulatedCall call("ibv_destroy_qp");
  if (call.error() != 0) return call.error();
  --of(pair->pd).uses;
  --of(pair->send_cq).uses;
  --of(pair->recv_cq).uses;
  call->pairs.erase(pair->qp_num);
  return 0;
}

/// Work before `bad` stays posted.
template <class Work>
int post_all(EmulatedCall& call, ibv_qp* pair, Work* work, Work** bad) {
  int error = call.error();
  for (; error == 0 && work != nullptr; work = error == 0 ? work->next : work)
    error = call->post(of(pair), *work);
  if (error != 0) *bad = work;
  return error;
}

int post_send(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr** bad) {
  EmulatedCall call("ibv_post_send");
  ++call->counts.post_send_calls;
  return post_all(call, pair, work, bad);
}

int post_recv(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
  EmulatedCall call("ibv_post_recv");
  ++call->counts.post_recv_calls;
  return post_all(call, pair, work, bad);
}

}  // namespace

void set_queue_verbs(VerbsTable& table) {
  table.create_comp_channel = create_comp_channel;
  table.destroy_comp_channel = destroy_comp_channel;
  table.create_cq = create_cq;
  table.destroy_cq = destroy_cq;
  table.get_cq_event = get_cq_event;
  table.ack_cq_events = ack_cq_events;
  table.req_notify_cq = req_notify_cq;
  table.poll_cq = poll_cq;
  table.create_qp = create_qp;
  table.modify_qp = modify_qp;
  table.query_qp = query_qp;
  table.destroy_qp = destroy_qp;
  table.post_send = post_send;
  table.post_recv = post_recv;
}

}  // namespace coll::test
