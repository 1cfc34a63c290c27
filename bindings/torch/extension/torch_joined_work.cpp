// SPDX-License-Identifier: Apache-2.0
// Several operations as one: what a coalescing manager gives its user.
#include "torch_joined_work.hpp"

#include <algorithm>
#include <chrono>

namespace collectives_torch {

bool JoinedWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isCompleted(); });
}

bool JoinedWork::isSuccess() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr JoinedWork::exception() const {
  for (const auto& part : parts_) {
    if (const std::exception_ptr failure = part->exception()) return failure;
  }
  return nullptr;
}

bool JoinedWork::wait(Milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (const auto& part : parts_) {
    if (timeout == kNoTimeout) {
      part->wait();
      continue;
    }
    const auto left = std::chrono::ceil<Milliseconds>(until - std::chrono::steady_clock::now());
    part->wait(std::max(left, Milliseconds(1)));  // 0 would wait for ever
  }
  return true;
}

void JoinedWork::abort() {
  if (!parts_.empty()) parts_.front()->abort();  // ends all operations of the group
}

std::vector<at::Tensor> JoinedWork::result() {
  std::vector<at::Tensor> outputs;
  for (const auto& part : parts_) {
    const std::vector<at::Tensor> more = part->result();
    outputs.insert(outputs.end(), more.begin(), more.end());
  }
  return outputs;
}

c10::intrusive_ptr<c10::ivalue::Future> JoinedWork::getFuture() {
  const auto type = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(type));
  for (const auto& part : parts_) futures.push_back(part->getFuture());
  const auto self = c10::intrusive_ptr<JoinedWork>::reclaim_copy(this);
  return c10::collectAll(futures)->then(
      [self](c10::ivalue::Future& all) {
        if (all.hasError()) std::rethrow_exception(all.exception_ptr());
        return c10::IValue(self->result());
      },
      type);
}

}  // namespace collectives_torch
