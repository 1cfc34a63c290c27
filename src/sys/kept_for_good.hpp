// SPDX-License-Identifier: Apache-2.0
// Where things go that somebody may still use and nobody can say until when.
#pragma once
#include <memory>

namespace coll {

/// Never destroys it. Any thread.
void keep_for_good(std::shared_ptr<void> what);

}  // namespace coll
