// SPDX-License-Identifier: Apache-2.0
// The first values of parameters: each is a function of the seed, the parameter's name and the
// element's place in the whole matrix. So a rank makes what it owns alone, and every layout and
// every split over ranks starts from the same model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "../model/unit.hpp"

namespace training {

/// Fills `to` with elements `first`, `first` + 1, … of what this rank has of the parameter. They
/// are normal with the parameter's mean and deviation.
void initial_values(const ParameterInfo& parameter, std::uint64_t seed, std::size_t first,
                    std::span<float> to);

}  // namespace training
