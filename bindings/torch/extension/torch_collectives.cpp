// SPDX-License-Identifier: Apache-2.0
// Collectives on one tensor per rank.
#include "torch_backend.hpp"
#include "torch_reduction.hpp"

namespace collectives_torch {

WorkPtr CollBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) {
    return allreduce_sparse(tensors, options);
  }
  const at::Tensor& tensor = only(tensors, "all_reduce");
  const auto reduction = Reduction::of(options.reduceOp, tensor.scalar_type(), "all_reduce");
  auto work = make_work(c10d::OpType::ALLREDUCE, "all_reduce", tensors, options.timeout);
  work->outputs = tensors;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  reduction.apply_to(call);
  call.count = reduction.elements.count(tensor);
  call.send = call.recv = memory_to_update(tensor, *work);
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  const Elements elements = Elements::moved(tensor.scalar_type());
  const int root = checked_root(options.rootRank, "broadcast");
  auto work = make_work(c10d::OpType::BROADCAST, "broadcast", tensors, options.timeout);
  work->outputs = tensors;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_BROADCAST;
  call.root = root;
  call.type = elements.type;
  call.count = elements.count(tensor);
  call.recv = rank_ == root ? memory_to_read(tensor, *work) : memory_to_write(tensor, *work);
  call.send = call.recv;
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "reduce");
  const auto reduction = Reduction::of(options.reduceOp, tensor.scalar_type(), "reduce");
  const int root = checked_root(options.rootRank, "reduce");
  auto work = make_work(c10d::OpType::REDUCE, "reduce", tensors, options.timeout);
  work->outputs = tensors;
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_REDUCE;
  call.root = root;
  reduction.apply_to(call);
  call.count = reduction.elements.count(tensor);
  if (rank_ == root) {
    call.send = call.recv = memory_to_update(tensor, *work);
  } else {
    call.send = memory_to_read(tensor, *work);
  }
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather_into_tensor";
  check_tensors({output, input}, name);
  check_same_type(output, input, name);
  check_contiguous(output, name);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, "coll: ", name, ": output must have ",
                    size_, " times the input's elements, not ", output.numel(), " for ",
                    input.numel());
  const Elements elements = Elements::moved(input.scalar_type());
  auto work =
      make_work(c10d::OpType::_ALLGATHER_BASE, "_all_gather_base", {input}, options.timeout);
  work->outputs = {output};
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.type = elements.type;
  call.count = elements.count(input);
  call.send = memory_to_read(input, *work);
  call.recv = memory_to_write(output, *work);
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  const char* const name = "reduce_scatter_tensor";
  check_tensors({output, input}, name);
  check_same_type(output, input, name);
  check_contiguous(output, name);
  TORCH_CHECK_VALUE(input.numel() == output.numel() * size_, "coll: ", name, ": input must have ",
                    size_, " times the output's elements, not ", input.numel(), " for ",
                    output.numel());
  const auto reduction = Reduction::of(options.reduceOp, input.scalar_type(), name);
  auto work = make_work(c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", {input},
                        options.timeout);
  work->outputs = {output};
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_REDUCE_SCATTER;
  reduction.apply_to(call);
  call.count = reduction.elements.count(output);
  call.send = memory_to_read(input, *work);
  call.recv = memory_to_write(output, *work);
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                   const c10d::GatherOptions& options) {
  const char* const name = "gather_single";
  const int root = checked_root(options.rootRank, name);
  check_tensor(input, name);
  const Elements elements = Elements::moved(input.scalar_type());
  if (rank_ == root) {
    check_tensor(output, name);
    check_same_type(output, input, name);
    check_contiguous(output, name);
    TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, "coll: ", name,
                      ": output must have ", size_, " times the input's elements, not ",
                      output.numel(), " for ", input.numel());
  }
  auto work = make_work(c10d::OpType::GATHER, "gather", {input}, options.timeout);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_GATHER;
  call.root = root;
  call.type = elements.type;
  call.count = elements.count(input);
  call.send = memory_to_read(input, *work);
  if (rank_ == root) {
    work->outputs = {output};
    call.recv = memory_to_write(output, *work);
  }
  return issue(std::move(work), call, may_return_early(options));
}

namespace {

/// Splits along dimension 0 as counts of the library's elements.
std::vector<std::size_t> counts_of(const std::vector<std::int64_t>& splits,
                                   const at::Tensor& tensor, const Elements& elements,
                                   std::size_t ranks) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const auto row = static_cast<std::size_t>(rows == 0 ? 0 : tensor.numel() / rows);
  std::vector<std::size_t> counts;
  if (splits.empty()) counts.assign(ranks, elements.count(tensor) / ranks);
  for (const std::int64_t split : splits) {
    counts.push_back(static_cast<std::size_t>(split) * row * elements.per_element);
  }
  return counts;
}

void check_splits(const std::vector<std::int64_t>& splits, const at::Tensor& tensor, int size,
                  const char* which) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, "coll: all_to_all_single: dimension 0 of the ", which, ", ",
                      rows, ", does not divide equally among ", size, " ranks");
    return;
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<std::size_t>(size),
                    "coll: all_to_all_single: ", splits.size(), " splits of the ", which, " for ",
                    size, " ranks");
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "coll: all_to_all_single: a split of the ", which, " is ", split);
    sum += split;
  }
  TORCH_CHECK_VALUE(sum == rows, "coll: all_to_all_single: the splits of the ", which, " sum to ",
                    sum, ", but its dimension 0 is ", rows);
}

}  // namespace

WorkPtr CollBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<std::int64_t>& output_splits,
                                   std::vector<std::int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all_single";
  check_tensors({output, input}, name);
  check_same_type(output, input, name);
  check_contiguous(output, name);
  check_splits(output_splits, output, size_, "output");
  check_splits(input_splits, input, size_, "input");
  const bool equal = output_splits.empty() && input_splits.empty();
  TORCH_CHECK_VALUE(!equal || output.numel() == input.numel(), "coll: ", name, ": the output has ",
                    output.numel(), " elements, the input ", input.numel());
  const Elements elements = Elements::moved(input.scalar_type());
  auto work = make_work(c10d::OpType::ALLTOALL_BASE, "all_to_all", {input}, options.timeout);
  work->outputs = {output};
  const auto sends = counts_of(input_splits, input, elements, ranks());
  const auto receives = counts_of(output_splits, output, elements, ranks());
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_TO_ALL;
  call.type = elements.type;
  call.send = memory_to_read(input, *work);
  call.recv = memory_to_write(output, *work);
  if (equal) {
    call.count = sends[0];
  } else {
    call.unequal = 1;
    call.send_counts = sends.data();
    call.recv_counts = receives.data();
  }
  return issue(std::move(work), call, may_return_early(options));
}

WorkPtr CollBackend::barrier(const c10d::BarrierOptions& options) {
  // As in Gloo, earlier collectives of this rank have ended when the barrier has.
  auto earlier = group_->in_flight(/*messages_too=*/false);
  auto work = make_work(c10d::OpType::BARRIER, "barrier", {}, options.timeout);
  work->earlier = std::move(earlier);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_BARRIER;
  return issue(std::move(work), call, may_return_early(options));
}

}  // namespace collectives_torch
