// SPDX-License-Identifier: Apache-2.0
// A port, a secret and a directory for one job.
#include "coll_run/coll_run_environment.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace perf {
namespace {

/// A port that nobody uses, below those that the system gives to outgoing connections. Another
/// process may take it before rank 0 does: the ranks then go on to others that they all know.
int free_port() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    unsigned number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return 0;
    const int port = 20000 + static_cast<int>(number % 12000);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (free) return port;
  }
  errno = EADDRINUSE;
  return 0;
}

}  // namespace

JobEnvironment::~JobEnvironment() {
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

bool JobEnvironment::prepare(int ranks, const std::string& rendezvous) {
  ranks_ = ranks;
  port_ = free_port();
  if (port_ == 0) return false;
  if (rendezvous == "file") {
    const char* temporary = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/coll-run-XXXXXX", temporary != nullptr ? temporary : "/tmp");
    if (mkdtemp(name.data()) == nullptr) return false;
    directory_ = name;
  }
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
  for (const unsigned char byte : bytes) secret_ += fmt::format("{:02x}", byte);
  return true;
}

void JobEnvironment::set(int rank) const {
  for (const char* name : {"COLL_RANK", "COLL_SIZE", "COLL_RENDEZVOUS", "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMI_FD", "SLURM_PROCID",
                           "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    unsetenv(name);
  }
  const auto put = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  put("RANK", std::to_string(rank));
  put("WORLD_SIZE", std::to_string(ranks_));
  put("LOCAL_RANK", std::to_string(rank));
  put("LOCAL_WORLD_SIZE", std::to_string(ranks_));
  put("MASTER_ADDR", "127.0.0.1");
  put("MASTER_PORT", std::to_string(port_));
  setenv("COLL_SECRET", secret_.c_str(), 0);
  if (!directory_.empty()) put("COLL_RENDEZVOUS", "file://" + directory_ + "/meet");
}

void pin_to_share(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  const auto count = static_cast<long>(cores.size());
  cpu_set_t share;
  CPU_ZERO(&share);
  // With more ranks than cores several ranks share one.
  const long begin = count * rank / ranks;
  const long end = std::max(begin + 1, count * (rank + 1) / ranks);
  for (long i = begin; i < end; ++i) CPU_SET(cores[static_cast<std::size_t>(i)], &share);
  sched_setaffinity(0, sizeof share, &share);
}

}  // namespace perf
