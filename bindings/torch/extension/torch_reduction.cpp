// SPDX-License-Identifier: Apache-2.0
// The table of reductions.
#include "torch_reduction.hpp"

#include <ATen/ATen.h>

#include <cstring>

namespace collectives_torch {

namespace {

coll_op_t op_of(c10d::ReduceOp::RedOpType op, const char* operation) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return COLL_SUM;
    case c10d::ReduceOp::AVG:
      return COLL_AVG;
    case c10d::ReduceOp::PRODUCT:
      return COLL_PROD;
    case c10d::ReduceOp::MIN:
      return COLL_MIN;
    case c10d::ReduceOp::MAX:
      return COLL_MAX;
    case c10d::ReduceOp::BAND:
      return COLL_BAND;
    case c10d::ReduceOp::BOR:
      return COLL_BOR;
    case c10d::ReduceOp::BXOR:
      return COLL_BXOR;
    case c10d::ReduceOp::PREMUL_SUM:
      return COLL_SUM;
    default:
      TORCH_CHECK_VALUE(false, "coll: ", operation, ": unknown reduction ", int(op));
  }
}

bool is_bitwise(coll_op_t op) {
  return op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR;
}

/// This rank's factor of a PREMUL_SUM, as a tensor of one element of `type`.
at::Tensor factor_of(const c10d::ReduceOp& op, at::ScalarType type, const char* operation) {
  const auto* supplement = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(supplement != nullptr, "coll: ", operation, ": PREMUL_SUM without a factor");
  const at::NoGradGuard no_gradients;
  if (!supplement->tensor_factor.defined()) {
    return at::full({1}, supplement->double_factor, at::kDouble).to(type);
  }
  return supplement->tensor_factor.to(at::kCPU, type).contiguous();
}

}  // namespace

Reduction Reduction::of(const c10d::ReduceOp& op, at::ScalarType type, const char* operation) {
  Reduction reduction;
  reduction.op = op_of(op.op_, operation);
  if (type == at::kComplexHalf && (reduction.op == COLL_SUM || reduction.op == COLL_AVG)) {
    reduction.elements = {COLL_FLOAT16, 2};  // sums go part by part
  } else {
    const auto known = dtype_of(type);
    TORCH_CHECK_VALUE(known.has_value(), "coll: ", operation, " cannot reduce ", type);
    reduction.elements = {*known, 1};
  }
  TORCH_CHECK_VALUE(!is_bitwise(reduction.op) || at::isIntegralType(type, /*includeBool=*/true),
                    "coll: ", operation, ": bitwise reductions take integers and bool, not ", type);
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    TORCH_CHECK_VALUE(type != at::kBool && type != at::kComplexHalf, "coll: ", operation,
                      ": PREMUL_SUM does not take ", type);
    const at::Tensor factor = factor_of(op, type, operation);
    reduction.has_factor = true;
    std::memcpy(reduction.factor.data(), factor.data_ptr(), factor.nbytes());
  }
  return reduction;
}

void Reduction::apply_to(coll_call_t& call) const {
  call.op = op;
  call.type = elements.type;
  call.factor = has_factor ? factor.data() : nullptr;
}

}  // namespace collectives_torch
