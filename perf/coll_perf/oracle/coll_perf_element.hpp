// SPDX-License-Identifier: Apache-2.0
// Elements of every type to and from numbers of a higher precision, written here again so that the
// oracle shares no code with what it judges.
#pragma once
#include <collectives/types.h>

#include <complex>

namespace perf {

/// Any element: a complex one, or a real one whose imaginary part is 0.
using Value = std::complex<long double>;

/// Rounds to nearest, ties to even. `value` must be in the type's range (floats overflow to
/// inf, or to their largest number where they have none).
void encode(coll_dtype_t type, Value value, void* element);
Value decode(coll_dtype_t type, const void* element);

bool is_float(coll_dtype_t type);
bool is_signed(coll_dtype_t type);  ///< can it be negative?
bool is_complex(coll_dtype_t type);

}  // namespace perf
