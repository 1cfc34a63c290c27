// SPDX-License-Identifier: Apache-2.0
// Makes, seals and maps a memfd.
#include "sys/memory/memory_segment.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace coll {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string text_of(std::size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

}  // namespace

bool populate(std::byte* data, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(data) % page;
  return madvise(data - before, before + bytes, MADV_POPULATE_WRITE) == 0;
}

MemorySegment::~MemorySegment() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Fd> MemorySegment::create(const char* name, std::size_t bytes) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Where vm.memfd_noexec asks for it the flag must be given; kernels before 6.3 do not know it.
  Fd fd(::memfd_create(name, flags | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd = Fd(::memfd_create(name, flags));
  if (!fd) return system_failure("memfd_create of a shared memory segment", errno);
  rlimit longest{};  // beyond it ftruncate kills the process
  if (::getrlimit(RLIMIT_FSIZE, &longest) == 0 && bytes > longest.rlim_cur)
    return failed(Code::out_of_resources,
                  "files may not be as long as a shared memory segment of " + text_of(bytes),
                  "raise the limit of file sizes (ulimit -f)");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_failure("ftruncate of a shared memory segment to " + text_of(bytes), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_failure("sealing the size of a shared memory segment", errno);
  return fd;
}

Result<std::size_t> MemorySegment::size_of(const Fd& descriptor) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return failed(Code::invalid_argument,
                  "the shared memory segment is not sealed against shrinking");
  struct statfs mount {};
  if (::fstatfs(descriptor.get(), &mount) == 0 && mount.f_type == HUGETLBFS_MAGIC)
    return failed(Code::invalid_argument,
                  "the shared memory segment is of hugetlbfs, whose pages may run out");
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0)
    return system_failure("fstat of a shared memory segment", errno);
  return static_cast<std::size_t>(status.st_size);
}

Result<MemorySegment> MemorySegment::map(const Fd& descriptor, std::size_t bytes) {
  COLL_ASSIGN(const std::size_t size, size_of(descriptor));
  if (size != bytes)
    return failed(Code::invalid_argument, "the shared memory segment has " + std::to_string(size) +
                                              " bytes, not " + std::to_string(bytes));
  void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (place == MAP_FAILED)
    return system_failure("mmap of a shared memory segment of " + text_of(bytes), errno);
  return MemorySegment(static_cast<std::byte*>(place), bytes);
}

}  // namespace coll
