// SPDX-License-Identifier: Apache-2.0
// The variables that tell a process its rank.
#pragma once
#include <string>

namespace perf {

/// The torchrun contract for ranks on this host: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// MASTER_ADDR and a free MASTER_PORT; a COLL_SECRET of this job unless there is one; with the
/// rendezvous "file" also COLL_RENDEZVOUS in a directory of its own. What an outer launcher set is
/// taken away.
class JobEnvironment {
 public:
  JobEnvironment() = default;
  JobEnvironment(const JobEnvironment&) = delete;
  JobEnvironment& operator=(const JobEnvironment&) = delete;
  ~JobEnvironment();
  /// False with errno if there is no port, or no directory.
  bool prepare(int ranks, const std::string& rendezvous);
  /// Sets the variables in this process, which becomes that rank.
  void set(int rank) const;

 private:
  int ranks_ = 0;
  int port_ = 0;
  std::string directory_;
  std::string secret_;
};

/// Binds this process to its share of the cores it may use.
void pin_to_share(int rank, int ranks);

}  // namespace perf
