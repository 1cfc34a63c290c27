// SPDX-License-Identifier: Apache-2.0
// The backend's life, its hooks and estimates, and how it issues operations.
#include "torch_backend.hpp"

#include <algorithm>
#include <bit>

namespace collectives_torch {

CollBackend::CollBackend(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store,
                         c10::intrusive_ptr<GroupOptions> options)
    : c10d::Backend(group->who().rank, group->who().size),
      group_(std::move(group)),
      store_(std::move(store)),
      options_(std::move(options)) {
#if COLLECTIVES_TORCH_AT_LEAST(14)
  options_->group_name = group_->who().name;
  options_->global_ranks_in_group.assign(group_->who().global_ranks.begin(),
                                         group_->who().global_ranks.end());
#endif
  init();
}

CollBackend::~CollBackend() = default;

coll_stats_t CollBackend::stats() {
  const auto stats = group_->with_communicator([](auto& comm) { return comm.stats(); });
  if (!stats) C10_THROW_ERROR(DistBackendError, "coll: no statistics: " + stats.error().text);
  return *stats;
}

void CollBackend::abort() {
  group_->abort();
  group_->abort_hooks.call();  // they may take a second, for which nobody waits
}

void CollBackend::shutdown() {
  group_->shutdown();
}

void CollBackend::waitForPendingWorks() {
  group_->wait_for_works();
}

void CollBackend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  TORCH_CHECK(!onCompletionHook_, "coll: the group has a completion hook already");
  TORCH_CHECK(sequence_ == 0, "coll: register the completion hook before the first operation");
  onCompletionHook_ = hook;
  group_->work_info_hook = std::move(hook);
}

#if COLLECTIVES_TORCH_AT_LEAST(14)
c10::intrusive_ptr<c10d::Backend> CollBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return {};
  Identity who{options->group_name,
               static_cast<int>(own - ranks.begin()),
               static_cast<int>(ranks.size()),
               {}};
  const std::vector<std::int64_t>& global = group_->who().global_ranks;
  for (const int rank : ranks) {
    TORCH_CHECK_VALUE(rank >= 0 && rank < size_, "coll: split: no rank ", rank, " in a group of ",
                      size_);
    who.global_ranks.push_back(global.empty() ? rank : global[static_cast<std::size_t>(rank)]);
  }
  auto part = group_->subset(ranks, std::move(who), options->timeout);
  return c10::make_intrusive<CollBackend>(
      std::move(part), store,
      c10::make_intrusive<GroupOptions>(options->timeout, options_->backend));
}

c10::intrusive_ptr<c10d::Backend> CollBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank, const int& size) {
  auto merged = Group::join(store, {options->group_name, rank, size, {}}, options->timeout);
  return c10::make_intrusive<CollBackend>(
      std::move(merged), store,
      c10::make_intrusive<GroupOptions>(options->timeout, options_->backend));
}

c10d::ErrorType CollBackend::getError() {
  if (!group_->is_open()) return c10d::ErrorType::SUCCESS;
  const auto status = group_->with_communicator([](auto& comm) { return comm.status(); });
  if (status) return c10d::ErrorType::SUCCESS;
  switch (status.error().code) {
    case COLL_DEADLINE:
      return c10d::ErrorType::TIMEOUT;
    case COLL_PEER_LOST:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void CollBackend::registerAbortHook(std::int64_t id, c10d::AbortHook hook) {
  group_->abort_hooks.add(id, std::move(hook));
}
void CollBackend::unregisterAbortHook(std::int64_t id) {
  group_->abort_hooks.remove(id);
}
#endif

#if COLLECTIVES_TORCH_AT_LEAST(15)
void CollBackend::registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) {
  group_->completion_hooks.add(id, [hook = std::move(hook)](std::uint64_t key, float duration_ms) {
    hook({key, duration_ms});
  });
}
void CollBackend::unregisterCompletionHook(std::int64_t id) {
  group_->completion_hooks.remove(id);
}
#endif

void CollBackend::startTimeEstimate() {
  estimate_us_ = 0;
  estimating_ = std::this_thread::get_id();
}

float CollBackend::endTimeEstimate() {
  TORCH_CHECK(estimating_.exchange({}) == std::this_thread::get_id(),
              "coll: endTimeEstimate without startTimeEstimate");
  return static_cast<float>(estimate_us_);
}

void CollBackend::addEphemeralTimeout(const Milliseconds& timeout) {
  const std::lock_guard lock(extensions_mutex_);
  extension_ += timeout;
  extension_untaken_ += timeout;
}

CollBackend::GroupWorkPtr CollBackend::make_work(c10d::OpType op, const char* words,
                                                 const Tensors& profiled_inputs,
                                                 Milliseconds timeout) {
  if (timeout == c10d::kUnsetTimeout) timeout = options_->timeout;
  Milliseconds ends_with_this{0};
  {
    const std::lock_guard lock(extensions_mutex_);
    timeout += extension_;
    ends_with_this = std::exchange(extension_untaken_, Milliseconds(0));
  }
  const std::uint64_t sequence = c10d::isP2POp(op) ? sequence_.load() : ++sequence_;
  auto work = c10::make_intrusive<GroupWork>(group_, Title{op, options_->backend, words},
                                             profiled_inputs, sequence, timeout);
  if (ends_with_this.count() != 0) {
    auto self = c10::intrusive_ptr<CollBackend>::reclaim_copy(this);
    work->until_end = std::shared_ptr<void>(nullptr, [self, ends_with_this](void*) {
      const std::lock_guard lock(self->extensions_mutex_);
      self->extension_ -= ends_with_this;
    });
  }
  return work;
}

void CollBackend::startCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  coalesced_.emplace();  // an exception may have kept an earlier one from its end
}

WorkPtr CollBackend::endCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  TORCH_CHECK(coalesced_, "coll: endCoalescing without startCoalescing");
  auto joined = c10::make_intrusive<JoinedWork>(rank_, *std::move(coalesced_));
  coalesced_.reset();
  return joined;
}

void CollBackend::coalesce(const GroupWorkPtr& work) {
  const std::lock_guard lock(coalesced_mutex_);
  if (!coalesced_) return;
  // An exception may keep a region from its end: then it shall not keep all tensors.
  const std::size_t parts = coalesced_->size();
  if (parts >= 1024 && std::has_single_bit(parts)) {
    std::erase_if(*coalesced_, [](const GroupWorkPtr& part) { return part->isSuccess(); });
  }
  coalesced_->push_back(work);
}

bool CollBackend::coalesces() {
  const std::lock_guard lock(coalesced_mutex_);
  return coalesced_.has_value();
}

WorkPtr CollBackend::issue(GroupWorkPtr work, std::span<coll_call_t> calls, bool async) {
  for (coll_call_t& call : calls) call.deadline_s = seconds(work->getTimeout());
  if (estimating_.load() == std::this_thread::get_id()) {
    for (const coll_call_t& call : calls) {
      const auto told = group_->with_communicator([&](auto& comm) { return comm.predict(call); });
      if (!told) {
        estimating_ = std::thread::id();
        C10_THROW_ERROR(DistBackendError, "coll: no estimate: " + told.error().text);
      }
      estimate_us_ += told->microseconds;
    }
    work->copies.clear();  // nothing is moved
    work->message_count.reset();
    work->finish_without_calls();
  } else if (calls.empty()) {
    work->finish_without_calls();
  } else if (coalesces() || async) {
    work->start(calls);
    coalesce(work);  // then its user waits for it at the end
  } else {
    work->run(calls);
  }
  return work;
}

int CollBackend::checked_root(std::int64_t root, const char* operation) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "coll: ", operation, ": no rank ", root,
                    " in a group of ", size_);
  return static_cast<int>(root);
}

}  // namespace collectives_torch
