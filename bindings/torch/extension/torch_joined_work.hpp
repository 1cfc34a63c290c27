// SPDX-License-Identifier: Apache-2.0
// Several operations as one: what a coalescing manager gives its user.
#pragma once
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "torch_work.hpp"

namespace collectives_torch {

/// Complete when all its operations are; fails as the first of them that failed.
class JoinedWork final : public c10d::Work {
 public:
  JoinedWork(int rank, std::vector<c10::intrusive_ptr<GroupWork>> parts)
      : c10d::Work(rank, c10d::OpType::COALESCED), parts_(std::move(parts)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void synchronize() override {}
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<GroupWork>> parts_;
};

}  // namespace collectives_torch
