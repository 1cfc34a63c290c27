// SPDX-License-Identifier: Apache-2.0
// Finds a descriptor of another process in /proc.
#include "sys/memory/peer_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "sys/text_file.hpp"

namespace coll {
namespace {

std::string name_of_file(std::int64_t pid, const SharedPlace& place) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(place.descriptor);
}

}  // namespace

std::string domain_of_peer_files() {
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
  struct stat processes {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &processes) != 0) return "";
  return boot + " " + std::to_string(processes.st_ino) + " " + std::to_string(::geteuid());
}

Result<Fd> find_peer_file(std::int64_t pid, const SharedPlace& place) {
  const std::string name = name_of_file(pid, place);
  Fd file(::open(name.c_str(), O_PATH | O_CLOEXEC));  // it may be anything
  if (!file && errno == ENOENT)
    return failed(Code::peer_lost, "the peer's memory at " + name + " is gone",
                  "its process has ended, or has deregistered what a call still used");
  if (!file) return system_failure("opening the peer's memory at " + name, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_failure("fstat of " + name, errno);
  if (status.st_ino != place.inode || !S_ISREG(status.st_mode)) {
    return failed(Code::invalid_argument,
                  name + " is not the memory that the peer has named: it has another inode");
  }
  return file;
}

Result<Fd> open_peer_file(std::int64_t pid, const SharedPlace& place, PeerFileUse use) {
  COLL_ASSIGN(const Fd found, find_peer_file(pid, place));
  const int access = use == PeerFileUse::write ? O_RDWR : O_RDONLY;
  Fd file(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), access | O_CLOEXEC));
  if (!file)
    return system_failure("opening the peer's memory at " + name_of_file(pid, place), errno);
  return file;
}

}  // namespace coll
