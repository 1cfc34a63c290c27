// SPDX-License-Identifier: Apache-2.0
// Schedules as text and as pictures.
#pragma once
#include <span>
#include <string>

#include "schedule/schedule.hpp"

namespace coll {

/// One rank's schedule, a line per step, such as
/// "lane 0  3  receive_reduce_send  from rank 2, with input 1, to rank 0".
std::string print(const Schedule& schedule);
/// A step's operands and peers: "from rank 2, with input 1, to rank 0".
std::string print(const Step& step);
/// "input 3", or "input 3..5" for three chunks.
std::string print(const Operand& operand, std::uint32_t count = 1);
/// The kind of a step, such as "receive_reduce_copy_send".
std::string_view kind_of(const Step& step);
/// All ranks' schedules as a complete SVG document: a column per rank, time downwards, an arrow per
/// message with its chunks.
std::string draw(std::span<const Schedule> schedules);

}  // namespace coll
