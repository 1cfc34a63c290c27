// SPDX-License-Identifier: Apache-2.0
// Groups of calls, and calls in turn.
#include "coll_perf/coll_perf_call_set.hpp"

namespace perf {

CallSet::CallSet(const Session& session, const Point& point, bool in_place,
                 std::vector<std::unique_ptr<Buffers>>& buffers, bool grouped)
    : grouped_(grouped) {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    calls_.push_back(std::make_unique<Call>(session, point, in_place, *buffers[i],
                                            session.stream(grouped ? 0 : i)));
}

coll_status_t CallSet::operator()() {
  if (!grouped_) {
    const Call& call = *calls_[next_];
    next_ = next_ + 1 == calls_.size() ? 0 : next_ + 1;
    return call();
  }
  if (const coll_status_t begun = coll_group_start(); begun != COLL_SUCCESS) return begun;
  for (const auto& call : calls_) static_cast<void>((*call)());  // a refusal fails the group's end
  return coll_group_end();
}

void CallSet::prepare(std::uint64_t seed) {
  for (const auto& call : calls_) call->prepare(seed++);
}

std::uint64_t CallSet::verify() {
  std::uint64_t wrong = 0;
  for (const auto& call : calls_) wrong += call->verify();
  return wrong;
}

void CallSet::settle() {
  for (const auto& call : calls_) call->settle();
}

}  // namespace perf
