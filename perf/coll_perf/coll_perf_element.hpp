// SPDX-License-Identifier: Apache-2.0
// Elements of every type to and from long double, written here again so that the oracle shares no
// code with what it judges.
#pragma once
#include <collectives/types.h>

namespace perf {

/// Rounds to nearest, ties to even. `value` must be in the type's range (floats overflow to
/// inf, or to their largest number where they have none).
void encode(coll_dtype_t type, long double value, void* element);
long double decode(coll_dtype_t type, const void* element);

bool is_float(coll_dtype_t type);
bool is_signed(coll_dtype_t type);

}  // namespace perf
