// SPDX-License-Identifier: Apache-2.0
// Which build of the library this process has loaded.
#pragma once
#include <string>

namespace coll {

/// The build ID that the linker wrote into this library, or into the program that it is part of, in
/// hexadecimal digits: other code, other ID. "" where the linker wrote none.
std::string build_id();

}  // namespace coll
