// SPDX-License-Identifier: Apache-2.0
// How many files a process may open.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/status.hpp"

namespace coll {

/// Raises the soft limit of open files, up to the hard one, so that `wanted` more fit beside those
/// open now. If not even `needed` fit: out_of_resources that says what for. A limit raised stays.
Status raise_file_limit(std::size_t needed, std::size_t wanted, std::string_view what_for);

/// The same for few files, without counting all that are open where there is plenty of room.
Status keep_files_free(std::size_t needed, std::string_view what_for);

}  // namespace coll
