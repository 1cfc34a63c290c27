// SPDX-License-Identifier: Apache-2.0
// Many operations as one: parts of one call of the library, or of one call per type.
#include <map>

#include "torch_backend.hpp"
#include "torch_reduction.hpp"

namespace collectives_torch {

namespace {

/// The parts of one call.
struct PartedCall {
  Reduction reduction;
  std::vector<coll_part_t> parts;
};

coll_call_t call_of(coll_operation_t operation, const std::vector<coll_part_t>& parts) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.parts = parts.data();
  call.part_count = parts.size();
  return call;
}

/// The calls of reductions, by type: a call has one.
class ReductionCalls {
 public:
  explicit ReductionCalls(const c10d::ReduceOp& op, const char* name) : op_(op), name_(name) {}

  void check(const at::Tensor& tensor) {
    const at::ScalarType type = tensor.scalar_type();
    if (!by_type_.contains(type)) by_type_[type].reduction = Reduction::of(op_, type, name_);
  }
  void add(const void* send, void* recv, const at::Tensor& counted) {
    PartedCall& call = by_type_[counted.scalar_type()];
    call.parts.push_back({send, recv, call.reduction.elements.count(counted)});
  }
  std::vector<coll_call_t> calls(coll_operation_t operation) const {
    std::vector<coll_call_t> calls;
    for (const auto& [type, parted] : by_type_) {
      calls.push_back(call_of(operation, parted.parts));
      parted.reduction.apply_to(calls.back());
    }
    return calls;
  }

 private:
  const c10d::ReduceOp& op_;
  const char* const name_;
  std::map<at::ScalarType, PartedCall> by_type_;
};

void check_pairs(const Tensors& outputs, const Tensors& inputs, const char* name) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "coll: ", name, ": ", outputs.size(),
                    " outputs for ", inputs.size(), " inputs");
  check_tensors(outputs, name);
  check_tensors(inputs, name);
  for (std::size_t i = 0; i < inputs.size(); ++i) check_same_type(outputs[i], inputs[i], name);
}

}  // namespace

WorkPtr CollBackend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  const char* const name = "all_reduce_coalesced";
  check_tensors(tensors, name);
  ReductionCalls reductions(options.reduceOp, name);
  for (const at::Tensor& tensor : tensors) reductions.check(tensor);
  auto work = make_work(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce", tensors, options.timeout);
  work->outputs = tensors;
  for (const at::Tensor& tensor : tensors) {
    void* const memory = memory_to_update(tensor, *work);
    reductions.add(memory, memory, tensor);
  }
  auto calls = reductions.calls(COLL_ALL_REDUCE);
  return issue(std::move(work), calls, may_return_early(options));
}

WorkPtr CollBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  const char* const name = "reduce_scatter_tensor_coalesced";
  check_pairs(outputs, inputs, name);
  ReductionCalls reductions(options.reduceOp, name);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * size_, "coll: ", name,
                      ": an input must have ", size_, " times its output's elements");
    reductions.check(inputs[i]);
  }
  auto work = make_work(op_of_reduce_scatters, name, inputs, options.timeout);
  work->outputs = outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reductions.add(memory_to_read(inputs[i], *work), memory_to_write(outputs[i], *work),
                   outputs[i]);
  }
  auto calls = reductions.calls(COLL_REDUCE_SCATTER);
  return issue(std::move(work), calls, may_return_early(options));
}

WorkPtr CollBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather_into_tensor_coalesced";
  check_pairs(outputs, inputs, name);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_, "coll: ", name,
                      ": an output must have ", size_, " times its input's elements");
  }
  auto work = make_work(op_of_all_gathers, name, inputs, options.timeout);
  work->outputs = outputs;
  std::vector<coll_part_t> parts;  // as bytes, whatever their types
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(
        {memory_to_read(inputs[i], *work), memory_to_write(outputs[i], *work), inputs[i].nbytes()});
  }
  coll_call_t call = call_of(COLL_ALL_GATHER, parts);
  call.type = COLL_UINT8;
  return issue(std::move(work), std::span(&call, parts.empty() ? 0 : 1), may_return_early(options));
}

// The lists of outputs are one per rank, with a tensor for each input.
WorkPtr CollBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  const char* const name = "all_gather_coalesced";
  check_tensors(inputs, name);
  TORCH_CHECK_VALUE(outputs.size() == ranks(), "coll: ", name,
                    " takes a list of outputs for each of ", size_, " ranks, not ", outputs.size());
  for (const Tensors& list : outputs) {
    check_pairs(list, inputs, name);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TORCH_CHECK_VALUE(list[i].numel() == inputs[i].numel(), "coll: ", name,
                        ": an output and its input differ in size");
    }
  }
  auto work = make_work(c10d::OpType::ALLGATHER_COALESCED, "all_gather", inputs, options.timeout);
  for (const Tensors& list : outputs) {
    work->outputs.insert(work->outputs.end(), list.begin(), list.end());
  }
  std::vector<coll_part_t> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) of_ranks.push_back(list[i]);
    const Elements bytes{COLL_UINT8, inputs[i].element_size() > 0
                                         ? static_cast<std::size_t>(inputs[i].element_size())
                                         : 1};
    parts.push_back({memory_to_read(inputs[i], *work),
                     Blocks::to_write(of_ranks, bytes, *work).data, inputs[i].nbytes()});
  }
  coll_call_t call = call_of(COLL_ALL_GATHER, parts);
  call.type = COLL_UINT8;
  return issue(std::move(work), std::span(&call, parts.empty() ? 0 : 1), may_return_early(options));
}

}  // namespace collectives_torch
