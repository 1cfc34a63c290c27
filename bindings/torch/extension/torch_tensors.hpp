// SPDX-License-Identifier: Apache-2.0
// Tensors as the library takes them: checked, typed, and contiguous.
#pragma once
#include <ATen/ATen.h>

#include <collectives/collectives.hpp>
#include <optional>
#include <span>
#include <vector>

#include "torch_work.hpp"

namespace collectives_torch {

using Tensors = std::vector<at::Tensor>;

/// The library's type; none for the types that it does not reduce.
std::optional<coll_dtype_t> dtype_of(at::ScalarType type);

/// Throws ValueError, naming `operation`, unless this is a dense tensor of the CPU.
void check_tensor(const at::Tensor& tensor, const char* operation);
void check_tensors(const Tensors& tensors, const char* operation);
void check_same_type(const at::Tensor& tensor, const at::Tensor& other, const char* operation);
void check_contiguous(const at::Tensor& tensor, const char* operation);
/// The one tensor of a list, checked.
at::Tensor& only(Tensors& tensors, const char* operation);
/// The list of one tensor per rank that a list of lists has.
Tensors& only_list(std::vector<Tensors>& lists, std::size_t size, const char* operation);

/// How many of the library's elements a number of PyTorch's are, and of which type. Data that is
/// only moved may have any type: the library then sees bytes.
struct Elements {
  coll_dtype_t type;
  std::size_t per_element;

  static Elements moved(at::ScalarType type);
  [[nodiscard]] std::size_t count(const at::Tensor& tensor) const {
    return static_cast<std::size_t>(tensor.numel()) * per_element;
  }
};

/// Is its memory its elements, one after another?
bool is_plain(const at::Tensor& tensor);

/// The tensor's memory for an operation of `work`: its own if it is plain, else a copy. `work`
/// keeps the memory, and copies it back at the end if the operation writes it.
void* memory_to_read(const at::Tensor& tensor, GroupWork& work);
void* memory_to_write(const at::Tensor& tensor, GroupWork& work);
void* memory_to_update(const at::Tensor& tensor, GroupWork& work);

/// One block per rank, one after another in memory: where the tensors lie like that, else a copy.
struct Blocks {
  void* data = nullptr;
  std::vector<std::size_t> counts;
  bool equal = true;  ///< all blocks have the same count

  static Blocks to_read(const Tensors& tensors, const Elements& elements, GroupWork& work);
  static Blocks to_write(const Tensors& tensors, const Elements& elements, GroupWork& work);
};

}  // namespace collectives_torch
