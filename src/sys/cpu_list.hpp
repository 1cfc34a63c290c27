// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: processors as Linux lists them.
#pragma once
#include <sched.h>

#include <string_view>

namespace coll {

/// The set that "0-3,8" names, up to where it makes sense.
cpu_set_t read_cpu_list(std::string_view list);

}  // namespace coll
