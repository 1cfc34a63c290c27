// SPDX-License-Identifier: Apache-2.0
// Memory of the program's own, made one of the segments of this process.
#include "sys/memory/registered_memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "sys/cuda/registered_device_memory.hpp"
#include "sys/fd.hpp"
#include "sys/memory/memory_places.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/shared_segments.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

constexpr const char* kMakeHint =
    "make it by memfd_create with MFD_ALLOW_SEALING and map it with MAP_SHARED, or use "
    "coll_mem_alloc";

/// One line of /proc/self/maps.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  bool shared = false;
  std::uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;  ///< of the file, or what the kernel says instead

  static bool parse(const std::string& line, Mapping& mapping) {
    char rights[5] = {};
    unsigned major = 0, minor = 0;
    std::uint64_t inode = 0;
    int name = 0;
    const int fields = std::sscanf(
        line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
        &mapping.begin, &mapping.end, rights, &mapping.offset, &major, &minor, &inode, &name);
    if (fields < 7) return false;
    mapping.shared = rights[3] == 's';
    mapping.device = makedev(major, minor);
    mapping.inode = inode;
    mapping.name = line.substr(static_cast<std::size_t>(name));
    return true;
  }
  /// Does `next` follow, private like this one or the same file's next part?
  [[nodiscard]] bool goes_on_in(const Mapping& next) const {
    if (next.begin != end || next.shared != shared) return false;
    return !shared ||
           (next.device == device && next.inode == inode && next.offset == offset + (end - begin));
  }
  [[nodiscard]] std::string text() const {
    return name.empty() ? std::string("memory without a file") : name;
  }
};

Status refuse(const std::string& what, const char* hint, int error = 0) {
  return failed(Code::invalid_argument, what, hint, error);
}

/// The mapping of [begin, begin + bytes); one that the kernel keeps in pieces, as after a madvise
/// for a part of it, is one. The failure says what lies there instead.
Result<Mapping> mapping_of(std::uintptr_t begin, std::size_t bytes) {
  COLL_ASSIGN(const std::string maps, read_file("/proc/self/maps"));
  Mapping whole;
  for (std::string_view rest = maps; !rest.empty();) {
    Mapping next;
    if (!Mapping::parse(std::string(take_line(rest)), next) || next.end <= begin) continue;
    if (whole.end == 0) {
      if (next.begin > begin) break;
      whole = next;
    } else if (whole.goes_on_in(next)) {
      whole.end = next.end;
    } else {
      break;
    }
    if (bytes <= whole.end - begin) return whole;
  }
  if (whole.end == 0) return refuse("nothing is mapped there", "give mapped memory");
  return refuse("only " + std::to_string(whole.end - begin) + " bytes of it are " +
                    (whole.shared ? "one shared mapping: " : "private memory: ") + whole.text(),
                "register each mapping by itself");
}

/// A copy of the process's descriptor of the mapping's file.
Result<Fd> descriptor_of(const Mapping& mapping) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open_files(::opendir("/proc/self/fd"), &::closedir);
  if (open_files == nullptr) return system_failure("listing /proc/self/fd", errno);
  Fd found;
  struct stat status {};
  const auto is_it = [&] {
    return status.st_dev == mapping.device && status.st_ino == mapping.inode;
  };
  while (const dirent* entry = ::readdir(open_files.get())) {  // NOLINT(concurrency-mt-unsafe)
    // By name: other threads open and close descriptors as we look at them.
    if (::fstatat(::dirfd(open_files.get()), entry->d_name, &status, 0) != 0 || !is_it()) continue;
    Fd copy(::fcntl(std::atoi(entry->d_name), F_DUPFD_CLOEXEC, 0));
    if (!copy && errno != EBADF) return system_failure("copying a file descriptor", errno);
    if (!copy || ::fstat(copy.get(), &status) != 0 || !is_it()) continue;  // it is another by now
    found = std::move(copy);
    // Only a descriptor for writing can be sealed.
    if ((::fcntl(found.get(), F_GETFL) & O_ACCMODE) == O_RDWR) break;
  }
  if (!found) {
    return refuse("no descriptor of it is open in this process: " + mapping.text(),
                  "close its descriptor after it is registered; memory that never had one is not "
                  "for other processes");
  }
  return found;
}

/// Makes sure that no reader of the file will die because it has shrunk.
Status seal(const Fd& file, const Mapping& mapping) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0) return {};
  if (seals < 0) return refuse("it is a file that cannot be sealed: " + mapping.text(), kMakeHint);
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0) return {};
  const int error = errno;
  if ((seals & F_SEAL_SEAL) != 0) {
    return refuse(
        "it cannot be sealed against shrinking, which would kill its readers: " + mapping.text(),
        kMakeHint);
  }
  return refuse("it is not sealed against shrinking, and its descriptor is not for writing: " +
                    mapping.text(),
                "add F_SEAL_SHRINK where it is made", error);
}

Status add(std::uintptr_t begin, const std::byte* data, std::size_t bytes) {
  COLL_ASSIGN(const Mapping mapping, mapping_of(begin, bytes));
  if (!mapping.shared) return SharedSegments::add_private(data, bytes);
  COLL_ASSIGN(Fd file, descriptor_of(mapping));
  COLL_TRY(seal(file, mapping));
  COLL_ASSIGN(const std::size_t size, MemorySegment::size_of(file));
  const std::uint64_t offset = mapping.offset + (begin - mapping.begin);
  if (offset > size || bytes > size - offset) {
    return refuse("its file ends before it does: " + mapping.text(),
                  "make the file as long as its mapping (ftruncate)");
  }
  return SharedSegments::add(data, bytes, std::move(file), offset).status();
}

}  // namespace

Status register_memory(const std::byte* data, std::size_t bytes) {
  const bool of_device = place_of_memory(data).kind == MemoryKind::device;
  const Status added = of_device ? RegisteredDeviceMemory::add(data, bytes)
                                 : add(reinterpret_cast<std::uintptr_t>(data), data, bytes);
  if (added.ok()) return {};
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<const void*>(data));
  return added.with_context(std::to_string(bytes) + " bytes at " + address);
}

Status deregister_memory(const std::byte* data) {
  return RegisteredDeviceMemory::begins_at(data) ? RegisteredDeviceMemory::remove(data)
                                                 : SharedSegments::remove(data);
}

}  // namespace coll
