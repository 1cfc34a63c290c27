// SPDX-License-Identifier: Apache-2.0
// A network of dense layers for images: y = gelu(x W' + b), and a head that names the class.
#pragma once
#include "unit.hpp"

namespace training {

struct MlpShape {
  std::size_t pixels = 784;
  std::vector<std::size_t> hidden = {128};
  std::size_t classes = 10;
  bool batch_norm = false;  ///< y = gelu(norm(x W')): batch_norm.hpp
};

/// Inputs are bytes, 0 to 255; the first layer reads them as 0 to 1.
template <class Real>
Units<Real> mlp_units(const MlpShape& shape);

}  // namespace training
