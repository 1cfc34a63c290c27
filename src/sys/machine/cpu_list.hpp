// SPDX-License-Identifier: Apache-2.0
// Lists of processors as Linux writes them ("0-3,8").
#pragma once
#include <sched.h>

#include <optional>
#include <string_view>

namespace coll {

/// The set that "0-3,8" names, up to where it makes sense.
cpu_set_t read_cpu_list(std::string_view list);

/// The set that "0-3,8" names; nothing if any of the list makes no sense.
std::optional<cpu_set_t> read_whole_cpu_list(std::string_view list);

}  // namespace coll
