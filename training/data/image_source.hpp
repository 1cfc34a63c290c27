// SPDX-License-Identifier: Apache-2.0
// Images and their classes: Fashion-MNIST (Xiao, Rasul, Vollgraf 2017, arXiv 1708.07747), 60,000
// images of 28 x 28 bytes for training, 10,000 for validation, ten classes.
#pragma once
#include <memory>
#include <string>

#include "draw.hpp"
#include "source.hpp"

namespace training {

/// Where Debian's package dataset-fashion-mnist lies.
inline constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

/// From a folder with train-images-idx3-ubyte.gz and its three companions. Throws Failure.
std::unique_ptr<Source> image_source(const std::string& folder, const Draw& draw);

}  // namespace training
