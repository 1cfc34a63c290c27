// SPDX-License-Identifier: Apache-2.0
// The c10d backend: PyTorch's process group operations over a communicator.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "torch_group.hpp"
#include "torch_joined_work.hpp"
#include "torch_tensors.hpp"
#include "torch_versions.hpp"
#include "torch_work.hpp"

namespace collectives_torch {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// Settings of one process group, as PyTorch hands them around.
struct GroupOptions final : c10d::Backend::Options {
  explicit GroupOptions(std::chrono::milliseconds after = kBackendDefaultTimeout,
                        std::string backend_name = "coll")
      : c10d::Backend::Options(std::move(backend_name), after) {}
  GroupOptions(const GroupOptions&) = default;

  // Virtual in newer versions, like those below.
  // NOLINTNEXTLINE(modernize-use-override)
  c10::intrusive_ptr<c10d::Backend::Options> clone() const {
    return c10::make_intrusive<GroupOptions>(*this);
  }
};

/// Member functions without `override` are virtual in newer versions of PyTorch only.
class CollBackend final : public c10d::Backend {
 public:
  CollBackend(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store,
              c10::intrusive_ptr<GroupOptions> options);
  ~CollBackend() override;

  // What it is (torch_backend.cpp).

  const std::string getBackendName() const override { return options_->backend; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() { return options_; }
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setSequenceNumberForGroup() override {}
  void setTimeout(Milliseconds timeout) { options_->timeout = timeout; }
  void addEphemeralTimeout(const Milliseconds& timeout);
  void abort();
  void shutdown();
  /// What the group's operations have done on this rank.
  coll_stats_t stats();
  void enableCollectivesTiming() override {}  // they are always timed
  void waitForPendingWorks() override;
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  bool isInitialized() { return group_->is_open(); }

#if COLLECTIVES_TORCH_AT_LEAST(14)
  // Groups from groups, and news of failures (torch_backend.cpp).

  bool supportsSplitting() const override {
    return true;
  }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                          const int& rank, const int& size) override;
  c10d::ErrorType getError() override;
  bool supportsAbortHooks() const {
    return true;
  }
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override;
  void unregisterAbortHook(std::int64_t id) override;
#endif
#if COLLECTIVES_TORCH_AT_LEAST(15)
  bool supportsCompletionHooks() const override {
    return true;
  }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override;
  void unregisterCompletionHook(std::int64_t id) override;
#endif

  // Estimates (torch_backend.cpp) and memory (torch_memory.cpp).

  /// Before 2.15, Python can ask only PyTorch's own NCCL backend for estimates.
  bool supportsTimeEstimation() const {
    return COLLECTIVES_TORCH_AT_LEAST(15);
  }
  void startTimeEstimate();
  float endTimeEstimate();
  bool supportsTensorAlloc(c10::DeviceIndex) {
    return true;
  }
  std::shared_ptr<c10::Allocator> getMemAllocator();
  at::Tensor allocateTensor(long size, at::TensorOptions options = {});

  // Operations on one tensor per rank (torch_collectives.cpp).

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // Operations on lists of tensors (torch_lists.cpp).

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;

  // Many small operations as one (torch_coalesced.cpp).

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;

  // Coalescing managers (torch_backend.cpp): operations issued in between are in flight together,
  // and the work of the end is all of theirs.

  bool supportsCoalescing() const {
    return true;
  }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // Sparse sums (torch_sparse.cpp).

  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;

  // Messages (torch_messages.cpp) and the barrier that names who is missing
  // (torch_monitored_barrier.cpp).

  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

 private:
  using GroupWorkPtr = c10::intrusive_ptr<GroupWork>;

  /// A collective, not yet issued. Its timeout is that of the options, else the group's.
  GroupWorkPtr make_work(c10d::OpType op, const char* words, const Tensors& profiled_inputs,
                         Milliseconds timeout);
  /// Is this between startCoalescing and endCoalescing?
  bool coalesces();
  /// Then keeps the work for the end.
  void coalesce(const GroupWorkPtr& work);
  /// Runs the calls in this thread, or starts them.
  WorkPtr issue(GroupWorkPtr work, std::span<coll_call_t> calls, bool async);
  WorkPtr issue(GroupWorkPtr work, coll_call_t& call, bool async) {
    return issue(std::move(work), std::span(&call, 1), async);
  }
  WorkPtr receive(Tensors& tensors, int peer, int tag, c10d::OpType op, const char* words);
  [[nodiscard]] int checked_root(std::int64_t root, const char* operation) const;
  void check_peer(int peer, const char* operation) const;
  [[nodiscard]] std::size_t ranks() const {
    return static_cast<std::size_t>(size_);
  }

  const std::shared_ptr<Group> group_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<GroupOptions> options_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::uint64_t monitored_barriers_ = 0;

  // Extensions of the timeout: those in force, and those that no operation has taken up.
  std::mutex extensions_mutex_;
  Milliseconds extension_{0}, extension_untaken_{0};

  std::mutex coalesced_mutex_;
  std::optional<std::vector<GroupWorkPtr>> coalesced_;  // issued since startCoalescing

  std::atomic<std::thread::id> estimating_{};  // whose operations are not run but estimated
  double estimate_us_ = 0;                     // that thread's
};

}  // namespace collectives_torch
