// SPDX-License-Identifier: Apache-2.0
// What differs between PyTorch's versions. 2.6, 2.14 and 2.15 were compiled, so where a member came
// in between, the source asks for 2.14.
#pragma once
#include <torch/version.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <type_traits>

#define COLLECTIVES_TORCH_AT_LEAST(minor) \
  (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

namespace collectives_torch {

#if COLLECTIVES_TORCH_AT_LEAST(14)
constexpr auto op_of_all_gathers = c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
constexpr auto op_of_reduce_scatters = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
constexpr auto op_of_all_gathers = c10d::OpType::COALESCED;
constexpr auto op_of_reduce_scatters = c10d::OpType::COALESCED;
#endif

/// Whether the call may return before its operation has ended. Where the options do not say, it
/// may.
template <class Options>
bool may_return_early([[maybe_unused]] const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

/// The store over a connection of its own, where PyTorch can make one.
template <class Store>
c10::intrusive_ptr<Store> clone_of(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

/// The time by another clock.
template <class Time>
Time time_as(std::chrono::steady_clock::time_point time) {
  using std::chrono::steady_clock;
  if constexpr (std::is_same_v<Time, steady_clock::time_point>) {
    return time;
  } else {
    return Time::clock::now() -
           std::chrono::duration_cast<typename Time::duration>(steady_clock::now() - time);
  }
}

}  // namespace collectives_torch
