// SPDX-License-Identifier: Apache-2.0
// What tensors the backend takes, and the copies of those that the library cannot use as they lie.
#include "torch_tensors.hpp"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <numeric>

namespace collectives_torch {

std::optional<coll_dtype_t> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return COLL_BOOL;
    case at::kByte:
      return COLL_UINT8;
    case at::kChar:
      return COLL_INT8;
    case at::kUInt16:
      return COLL_UINT16;
    case at::kShort:
      return COLL_INT16;
    case at::kUInt32:
      return COLL_UINT32;
    case at::kInt:
      return COLL_INT32;
    case at::kUInt64:
      return COLL_UINT64;
    case at::kLong:
      return COLL_INT64;
    case at::kHalf:
      return COLL_FLOAT16;
    case at::kBFloat16:
      return COLL_BFLOAT16;
    case at::kFloat:
      return COLL_FLOAT32;
    case at::kDouble:
      return COLL_FLOAT64;
    case at::kFloat8_e4m3fn:
      return COLL_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return COLL_FLOAT8_E5M2;
    case at::kComplexFloat:
      return COLL_COMPLEX64;
    case at::kComplexDouble:
      return COLL_COMPLEX128;
    default:
      return std::nullopt;
  }
}

void check_tensor(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined(), "coll: ", operation, ": a tensor is undefined");
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "coll: ", operation,
                    " takes tensors of the CPU, not of ", tensor.device(), "; copy it with .cpu()");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "coll: ", operation,
                    " takes dense tensors, not layout ", tensor.layout(),
                    "; only all_reduce takes sparse ones (COO, sum)");
  TORCH_CHECK_VALUE(!tensor.is_quantized(), "coll: ", operation, " takes no quantized tensors");
}

void check_tensors(const Tensors& tensors, const char* operation) {
  for (const at::Tensor& tensor : tensors) check_tensor(tensor, operation);
}

void check_same_type(const at::Tensor& tensor, const at::Tensor& other, const char* operation) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == other.scalar_type(), "coll: ", operation,
                    ": tensors of different types, ", tensor.scalar_type(), " and ",
                    other.scalar_type());
}

void check_contiguous(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.is_contiguous(), "coll: ", operation,
                    ": the output tensor must be contiguous");
}

at::Tensor& only(Tensors& tensors, const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "coll: ", operation, " takes one tensor, not ",
                    tensors.size());
  check_tensor(tensors[0], operation);
  return tensors[0];
}

Tensors& only_list(std::vector<Tensors>& lists, std::size_t size, const char* operation) {
  TORCH_CHECK_VALUE(lists.size() == 1, "coll: ", operation, " takes one list of tensors, not ",
                    lists.size());
  TORCH_CHECK_VALUE(lists[0].size() == size, "coll: ", operation, " takes a tensor for each of ",
                    size, " ranks, not ", lists[0].size());
  check_tensors(lists[0], operation);
  for (const at::Tensor& tensor : lists[0]) check_same_type(tensor, lists[0][0], operation);
  return lists[0];
}

Elements Elements::moved(at::ScalarType type) {
  if (const auto known = dtype_of(type)) return {*known, 1};
  return {COLL_UINT8, c10::elementSize(type)};
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

namespace {

at::Tensor plain_like(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
}

at::Tensor plain_copy(const at::Tensor& tensor) {
  const at::NoGradGuard no_gradients;
  at::Tensor copy = plain_like(tensor);
  copy.copy_(tensor);
  return copy;
}

/// Keeps the tensor's memory for the work's time.
void* memory_of(const at::Tensor& tensor, GroupWork& work) {
  work.keeps.push_back(tensor);
  return tensor.data_ptr();
}

bool lie_one_behind_another(const Tensors& tensors) {
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const char* const data = static_cast<const char*>(tensor.data_ptr());
    if (!is_plain(tensor) || (next != nullptr && data != next)) return false;
    next = data + tensor.nbytes();
  }
  return true;
}

Blocks counted(const Tensors& tensors, const Elements& elements) {
  Blocks blocks;
  for (const at::Tensor& tensor : tensors) blocks.counts.push_back(elements.count(tensor));
  blocks.equal = std::all_of(blocks.counts.begin(), blocks.counts.end(),
                             [&](std::size_t count) { return count == blocks.counts[0]; });
  return blocks;
}

/// The first block's memory, if the blocks need no copy.
bool use_in_place(const Tensors& tensors, Blocks& blocks, GroupWork& work) {
  if (!lie_one_behind_another(tensors)) return false;
  for (const at::Tensor& tensor : tensors) {
    work.keeps.push_back(tensor);
    if (blocks.data == nullptr && tensor.numel() != 0) blocks.data = tensor.data_ptr();
  }
  return true;
}

/// Memory for all blocks, and the part of each.
Tensors make_flat(const Tensors& tensors, Blocks& blocks, GroupWork& work) {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  const at::Tensor flat = at::empty({total}, tensors[0].options());
  blocks.data = memory_of(flat, work);
  Tensors parts;
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
  return parts;
}

/// Of a tensor that an operation writes, and that is not plain.
void check_apart(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                    "coll: elements of an output share memory (an expanded tensor?); "
                    "give tensor.contiguous()");
}

}  // namespace

void* memory_to_read(const at::Tensor& tensor, GroupWork& work) {
  return memory_of(is_plain(tensor) ? tensor : plain_copy(tensor), work);
}

void* memory_to_write(const at::Tensor& tensor, GroupWork& work) {
  if (is_plain(tensor)) return memory_of(tensor, work);
  check_apart(tensor);
  const at::Tensor copy = plain_like(tensor);
  work.copies.push_back({tensor, copy});
  return memory_of(copy, work);
}

void* memory_to_update(const at::Tensor& tensor, GroupWork& work) {
  if (is_plain(tensor)) return memory_of(tensor, work);
  check_apart(tensor);
  const at::Tensor copy = plain_copy(tensor);
  work.copies.push_back({tensor, copy});
  return memory_of(copy, work);
}

Blocks Blocks::to_read(const Tensors& tensors, const Elements& elements, GroupWork& work) {
  Blocks blocks = counted(tensors, elements);
  if (use_in_place(tensors, blocks, work)) return blocks;
  const at::NoGradGuard no_gradients;
  const Tensors parts = make_flat(tensors, blocks, work);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy_(tensors[i]);
  return blocks;
}

Blocks Blocks::to_write(const Tensors& tensors, const Elements& elements, GroupWork& work) {
  Blocks blocks = counted(tensors, elements);
  if (use_in_place(tensors, blocks, work)) return blocks;
  for (const at::Tensor& tensor : tensors) check_apart(tensor);
  const Tensors parts = make_flat(tensors, blocks, work);
  for (std::size_t i = 0; i < parts.size(); ++i) work.copies.push_back({tensors[i], parts[i]});
  return blocks;
}

}  // namespace collectives_torch
