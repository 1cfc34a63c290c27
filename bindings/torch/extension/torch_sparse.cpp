// SPDX-License-Identifier: Apache-2.0
// The sum of sparse tensors: all ranks gather each other's elements and add them. The calls depend
// on each other, so the function returns only when the result is there.
#include "torch_backend.hpp"

namespace collectives_torch {

WorkPtr CollBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const char* const name = "sparse_all_reduce";
  TORCH_CHECK_VALUE(tensors.size() == 1, "coll: ", name, " takes one tensor, not ", tensors.size());
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_VALUE(tensor.layout() == at::kSparse && tensor.device().is_cpu(), "coll: ", name,
                    " takes a COO tensor of the CPU, not layout ", tensor.layout(), " of ",
                    tensor.device());
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM, "coll: ", name, " can only sum");
  const at::NoGradGuard no_gradients;
  auto work = make_work(c10d::OpType::_ALLREDUCE_SPARSE, name, tensors, options.timeout);
  const auto run = [&](coll_call_t& call) {
    call.deadline_s = seconds(work->getTimeout());
    const coll_status_t status =
        group_->with_communicator([&](auto& comm) { return coll_run(&call, comm.get()); });
    if (status != COLL_SUCCESS) group_->throw_last(name, status, work->getTimeout());
  };
  const auto gather_rows = [&](const at::Tensor& rows,
                               const std::vector<std::int64_t>& row_counts) {
    const Elements elements = Elements::moved(rows.scalar_type());
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes[0] = 0;
    for (const std::int64_t count : row_counts) sizes[0] += count;
    at::Tensor all = at::empty(sizes, rows.options());
    std::size_t row = elements.per_element;
    for (std::size_t i = 1; i < sizes.size(); ++i) row *= static_cast<std::size_t>(sizes[i]);
    std::vector<std::size_t> counts;
    for (const std::int64_t count : row_counts)
      counts.push_back(static_cast<std::size_t>(count) * row);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_GATHER;
    call.unequal = 1;
    call.type = elements.type;
    call.send = rows.data_ptr();
    call.recv = all.data_ptr();
    call.count = counts[static_cast<std::size_t>(rank_)];
    call.recv_counts = counts.data();
    run(call);
    return all;
  };

  const at::Tensor own = tensor.coalesce();
  const at::Tensor indices = own.indices().t().contiguous();  // a row for each element
  const at::Tensor values = own.values().contiguous();

  // All ranks compare shapes before they gather by them.
  const std::int64_t own_shape[] = {own._nnz(), own.sparse_dim(), own.dense_dim(), own.numel()};
  std::vector<std::int64_t> shapes(4 * ranks());
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.type = COLL_INT64;
  call.send = own_shape;
  call.recv = shapes.data();
  call.count = 4;
  run(call);
  std::vector<std::int64_t> row_counts;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::int64_t* const shape = &shapes[4 * rank];
    TORCH_CHECK_VALUE(std::equal(shape + 1, shape + 4, own_shape + 1), "coll: ", name,
                      ": the tensor of rank ", rank, " has another shape than that of rank ",
                      rank_);
    row_counts.push_back(shape[0]);
  }

  const at::Tensor all_indices = gather_rows(indices, row_counts);
  const at::Tensor all_values = gather_rows(values, row_counts);
  const at::Tensor sum = at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes(),
                                               values.options().layout(at::kSparse))
                             .coalesce();
  tensor.copy_(sum);
  work->outputs = {tensor};
  work->finish_without_calls();
  return work;
}

}  // namespace collectives_torch
