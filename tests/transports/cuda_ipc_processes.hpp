// SPDX-License-Identifier: Apache-2.0
// Two ends of CUDA IPC in two processes.
#pragma once
#include <array>
#include <memory>

#include "cuda_ipc_pair.hpp"
#include "emulation/cuda/other_process.hpp"

namespace coll::test {

using emulation_test::ProcessLink;

/// What the two processes tell each other first.
struct Meeting {
  std::uint64_t job = 0;
  int device = 0;
  std::array<char, 500> descriptor{};
};

/// This process's rank and its end of the connection. Rank 0 names the job.
class RankOfTwo {
 public:
  RankOfTwo(const ProcessLink& link, Rank rank, int device) : device_(device) {
    Meeting theirs, own;
    if (rank == 1) theirs = link.receive<Meeting>();
    own.job = rank == 0 ? fresh_job() : theirs.job;
    auto made = make_shm_transport(spec_of(rank, 2, own.job));
    EXPECT_TRUE(made.ok()) << made.status().text();
    transport_ = *std::move(made);
    EXPECT_LT(transport_->descriptor().size(), own.descriptor.size());
    transport_->descriptor().copy(own.descriptor.data(), own.descriptor.size());
    link.send(own);
    if (rank == 0) theirs = link.receive<Meeting>();
    auto opened = transport_->open({.peer = 1 - rank, .lane = 0, .slot_bytes = kSlot, .credits = 2},
                                   theirs.descriptor.data());
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    ipc_ = std::make_unique<CudaIpcConnection>(*std::move(opened), context_of_device(device),
                                               kCredits, true);
    EXPECT_TRUE(eventually([&] {
      transport_->poll();
      ipc_->poll();
      return ipc_->ready() || !ipc_->status().ok();
    }));
    EXPECT_TRUE(ipc_->status().ok()) << ipc_->status().text();
  }

  [[nodiscard]] CudaIpcConnection& ipc() { return *ipc_; }
  /// The end, as a user has it: by IPC or else by staging.
  DeviceEnd take() {
    if (ipc_->reaches()) return {std::move(ipc_), device_};
    return {std::make_unique<StagingConnection>(ipc_->give_back(), context_of_device(device_),
                                                kCredits),
            device_};
  }

 private:
  int device_;
  std::unique_ptr<Transport> transport_;
  IpcPointer ipc_;
};

}  // namespace coll::test
