// SPDX-License-Identifier: Apache-2.0
// Which launcher's store a text names.
#include "rendezvous/stores/job_board.hpp"

#include <charconv>

namespace coll {

Result<std::string> share_in_job(const std::string& store, const std::string& name,
                                 const std::string& text, bool gives, Deadline deadline) {
  if (store == "pmix") return share_by_pmix(name, text, gives, deadline);
  int fd = -1;
  const char* const end = store.data() + store.size();
  if (!store.starts_with("fd:") || std::from_chars(store.data() + 3, end, fd).ptr != end ||
      fd < 0) {
    return failed(Code::invalid_argument, "\"" + store + "\" is no launcher's store",
                  "PMI_FD must be a number");
  }
  return share_by_pmi(fd, name, text, gives, deadline);
}

}  // namespace coll
