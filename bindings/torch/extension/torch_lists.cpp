// SPDX-License-Identifier: Apache-2.0
// Collectives whose blocks are tensors of their own, maybe of different sizes.
#include <algorithm>

#include "torch_backend.hpp"
#include "torch_reduction.hpp"

namespace collectives_torch {

WorkPtr CollBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather";
  const at::Tensor& input = only(inputs, name);
  const Tensors& list = only_list(outputs, ranks(), name);
  const at::Tensor& own = list[static_cast<std::size_t>(rank_)];
  check_same_type(own, input, name);
  TORCH_CHECK_VALUE(own.numel() == input.numel(), "coll: ", name, ": the output of this rank has ",
                    own.numel(), " elements, its input ", input.numel());
  const Elements elements = Elements::moved(input.scalar_type());
  auto work = make_work(c10d::OpType::ALLGATHER, name, inputs, options.timeout);
  work->outputs = list;
  const Blocks blocks = Blocks::to_write(list, elements, *work);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.type = elements.type;
  call.send = memory_to_read(input, *work);
  call.recv = blocks.data;
  call.count = elements.count(input);
  call.unequal = blocks.equal ? 0 : 1;
  call.recv_counts = blocks.counts.data();
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  const char* const name = "reduce_scatter";
  const at::Tensor& output = only(outputs, name);
  const Tensors& list = only_list(inputs, ranks(), name);
  const at::Tensor& own = list[static_cast<std::size_t>(rank_)];
  check_same_type(own, output, name);
  TORCH_CHECK_VALUE(own.numel() == output.numel(), "coll: ", name, ": the input of this rank has ",
                    own.numel(), " elements, its output ", output.numel());
  const auto reduction = Reduction::of(options.reduceOp, output.scalar_type(), name);
  auto work = make_work(c10d::OpType::REDUCE_SCATTER, name, list, options.timeout);
  work->outputs = outputs;
  const Blocks blocks = Blocks::to_read(list, reduction.elements, *work);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_REDUCE_SCATTER;
  reduction.apply_to(call);
  call.send = blocks.data;
  call.recv = memory_to_write(output, *work);
  call.count = reduction.elements.count(output);
  call.unequal = blocks.equal ? 0 : 1;
  call.send_counts = blocks.counts.data();
  return issue(std::move(work), call, may_return_early(options));
}

namespace {

/// The other ranks do not know the root's list, so it must not need another operation than theirs.
void check_blocks_equal(const Tensors& list, const at::Tensor& own, const char* name) {
  check_same_type(list[0], own, name);
  for (const at::Tensor& tensor : list) {
    TORCH_CHECK_VALUE(tensor.numel() == own.numel(), "coll: ", name, ": all tensors must have ",
                      own.numel(), " elements like this rank's, one has ", tensor.numel());
  }
}

}  // namespace

WorkPtr CollBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::GatherOptions& options) {
  const char* const name = "gather";
  const at::Tensor& input = only(inputs, name);
  const int root = checked_root(options.rootRank, name);
  TORCH_CHECK_VALUE(rank_ == root || outputs.empty(), "coll: ", name,
                    ": only the root gives outputs");
  if (rank_ == root) check_blocks_equal(only_list(outputs, ranks(), name), input, name);
  const Elements elements = Elements::moved(input.scalar_type());
  auto work = make_work(c10d::OpType::GATHER, name, inputs, options.timeout);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_GATHER;
  call.root = root;
  call.type = elements.type;
  call.count = elements.count(input);
  call.send = memory_to_read(input, *work);
  if (rank_ == root) {
    work->outputs = outputs[0];
    call.recv = Blocks::to_write(outputs[0], elements, *work).data;
  }
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& options) {
  const char* const name = "scatter";
  const at::Tensor& output = only(outputs, name);
  const int root = checked_root(options.rootRank, name);
  TORCH_CHECK_VALUE(rank_ == root || inputs.empty(), "coll: ", name,
                    ": only the root gives inputs");
  if (rank_ == root) check_blocks_equal(only_list(inputs, ranks(), name), output, name);
  const Elements elements = Elements::moved(output.scalar_type());
  auto work =
      make_work(c10d::OpType::SCATTER, name, rank_ == root ? inputs[0] : outputs, options.timeout);
  work->outputs = outputs;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_SCATTER;
  call.root = root;
  call.type = elements.type;
  call.count = elements.count(output);
  call.recv = memory_to_write(output, *work);
  if (rank_ == root) call.send = Blocks::to_read(inputs[0], elements, *work).data;
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all";
  for (const Tensors* list : {&outputs, &inputs}) {
    TORCH_CHECK_VALUE(list->size() == ranks(), "coll: ", name, " takes a tensor for each of ",
                      size_, " ranks, not ", list->size());
    check_tensors(*list, name);
    for (const at::Tensor& tensor : *list) check_same_type(tensor, inputs[0], name);
  }
  const Elements elements = Elements::moved(inputs[0].scalar_type());
  auto work = make_work(c10d::OpType::ALLTOALL, name, inputs, options.timeout);
  work->outputs = outputs;
  const Blocks sends = Blocks::to_read(inputs, elements, *work);
  const Blocks receives = Blocks::to_write(outputs, elements, *work);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_TO_ALL;
  call.unequal = 1;
  call.type = elements.type;
  call.send = sends.data;
  call.recv = receives.data;
  call.send_counts = sends.counts.data();
  call.recv_counts = receives.counts.data();
  return issue(std::move(work), call, may_return_early(options));
}

}  // namespace collectives_torch
