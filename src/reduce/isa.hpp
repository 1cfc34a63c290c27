// SPDX-License-Identifier: Apache-2.0
// The tables, one per instruction set, and which run here.
#pragma once
#include <span>
#include <string_view>

#include "reduce/reduce.hpp"

namespace coll::reduce {

/// Everything one instruction set offers; the same source compiled once for each (kernels.cpp).
struct Table {
  const char* name;  ///< "avx512fp16", "avx512", "avx2", "neonfp16", "neon", "baseline"
  Kernels kernels[kReduceOps][kDataTypes];
  CopyKernels copies;
};

/// The tables that this CPU can run, best first; never empty. All of them give the same bits.
std::span<const Table* const> tables();

/// The table called `name`; the best one where `name` is empty, unknown or lacking on this CPU.
const Table& table_for(std::string_view name);

}  // namespace coll::reduce
