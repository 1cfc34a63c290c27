// SPDX-License-Identifier: Apache-2.0
// The key-value stores that launchers bring.
#pragma once
#include <string>

#include "base/status.hpp"
#include "sys/clock.hpp"

namespace coll {

/// Carries one word of text (no blanks, no =) from the rank that `gives` to all ranks of the job,
/// through the launcher's store; all of them must call it. `name` may be used again and again: what
/// all ranks have shared before is not seen any more. `store` says which: "fd:N" is PMI-1 on
/// file descriptor N (MPICH, Intel MPI), "pmix" is PMIx (Open MPI, Slurm). The connection to the
/// launcher is opened at the first use and closed in order when the process ends, as launchers
/// expect.
Result<std::string> share_in_job(const std::string& store, const std::string& name,
                                 const std::string& text, bool gives, Deadline deadline);

/// The failure of a child made by fork, to which the launcher does not speak.
Status line_of_the_parent(const char* store);

/// Is the library of PMIx here?
bool pmix_loads();

/// Its two ways.
Result<std::string> share_by_pmi(int fd, const std::string& name, const std::string& text,
                                 bool gives, Deadline deadline);
Result<std::string> share_by_pmix(const std::string& name, const std::string& text, bool gives,
                                  Deadline deadline);

}  // namespace coll
