// SPDX-License-Identifier: Apache-2.0
// Measurements of overlap and bubbles for people, as tables, and for programs, as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bubble_measure.hpp"
#include "overlap_measure.hpp"

namespace training {

std::string table_of(std::span<const OverlapResult> results);
std::string table_of(std::span<const BubbleResult> results);
nlohmann::json json_of(std::span<const OverlapResult> results);
nlohmann::json json_of(std::span<const BubbleResult> results);

}  // namespace training
