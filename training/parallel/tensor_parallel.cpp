// SPDX-License-Identifier: Apache-2.0
// Each wish of a unit is one blocking all-reduce in place.
#include "tensor_parallel.hpp"

#include "../memory/failure.hpp"

namespace training {

template <class Real>
TensorPartners<Real>::TensorPartners(collectives::Communicator& communicator)
    : communicator_(communicator),
      rank_(static_cast<std::size_t>(communicator.rank())),
      ranks_(static_cast<std::size_t>(communicator.size())) {}

template <class Real>
void TensorPartners<Real>::reduce(std::span<Real> values, coll_op_t op, Asked& asked) {
  value_of(communicator_.all_reduce(values, op));
  ++asked.operations;
  asked.elements += values.size();
}

template <class Real>
void TensorPartners<Real>::sum(std::span<Real> values) {
  reduce(values, COLL_SUM, sums_);
}

template <class Real>
void TensorPartners<Real>::maximum(std::span<Real> values) {
  reduce(values, COLL_MAX, maxima_);
}

template class TensorPartners<float>;
template class TensorPartners<double>;

}  // namespace training
