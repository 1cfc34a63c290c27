// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, which find each other by source and tag.
#include "torch_backend.hpp"

namespace collectives_torch {

void CollBackend::check_peer(int peer, const char* operation) const {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_, "coll: ", operation, ": no rank ", peer,
                    " in a group of ", size_);
}

WorkPtr CollBackend::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  check_peer(peer, "send");
  const Elements elements = Elements::moved(tensor.scalar_type());
  auto work = make_work(c10d::OpType::SEND, "send", tensors, c10d::kUnsetTimeout);
  work->outputs = tensors;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_SEND;
  call.tagged = 1;
  call.tag = tag;
  call.root = peer;
  call.type = elements.type;
  call.count = elements.count(tensor);
  call.send = memory_to_read(tensor, *work);
  return issue(std::move(work), call, /*async=*/true);
}

WorkPtr CollBackend::receive(Tensors& tensors, int peer, int tag, c10d::OpType op,
                             const char* words) {
  const at::Tensor& tensor = only(tensors, words);
  const Elements elements = Elements::moved(tensor.scalar_type());
  auto work = make_work(op, words, tensors, c10d::kUnsetTimeout);
  work->outputs = tensors;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_RECV;
  call.tagged = 1;
  call.tag = tag;
  call.root = peer;
  call.type = elements.type;
  call.count = elements.count(tensor);
  call.recv = memory_to_write(tensor, *work);
  call.message = &work->message;
  work->message_count = call.count;  // a shorter message is no success
  return issue(std::move(work), call, /*async=*/true);
}

WorkPtr CollBackend::recv(Tensors& tensors, int peer, int tag) {
  check_peer(peer, "recv");
  return receive(tensors, peer, tag, c10d::OpType::RECV, "recv");
}

WorkPtr CollBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, COLL_ANY_SOURCE, tag, c10d::OpType::RECVANYSOURCE, "recvAnySource");
}

}  // namespace collectives_torch
