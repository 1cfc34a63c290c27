// SPDX-License-Identifier: Apache-2.0
// The names that device_kernels.cuh gives its kernels.
#include "base/check.hpp"
#include "reduce/device/device_kernels.hpp"

namespace coll::reduce {

std::string device_kernel(ReduceOp op, DataType type, bool finish) {
  COLL_CHECK(!is_own(op) && has_meaning(op, type), "a pass without a meaning");
  const ReduceOp pass = op == ReduceOp::avg && !finish ? ReduceOp::sum : op;
  return "coll_" + std::string(name_of(pass)) + "_" + std::string(name_of(type));
}

std::string device_scale_kernel(DataType type) {
  COLL_CHECK(kind_of(type) != ElementKind::boolean, "bool has no factors");
  return "coll_scale_" + std::string(name_of(type));
}

}  // namespace coll::reduce
