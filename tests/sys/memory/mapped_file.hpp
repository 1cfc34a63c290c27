// SPDX-License-Identifier: Apache-2.0
// Memory of a program's own that could be registered.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "sys/fd.hpp"

namespace coll::test {

/// A memfd that may be sealed, and is mapped as a whole.
struct MappedFile {
  explicit MappedFile(std::size_t size, unsigned flags = MFD_ALLOW_SEALING)
      : MappedFile(Fd(::memfd_create("coll-test", MFD_CLOEXEC | flags)), size) {
    COLL_CHECK(::ftruncate(file.get(), static_cast<off_t>(size)) == 0, "ftruncate");
  }
  /// Of a file of any kind.
  MappedFile(Fd any, std::size_t size, int flags = MAP_SHARED)
      : file(std::move(any)),
        bytes(size),
        data(static_cast<std::byte*>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file.get(), 0))) {
    COLL_CHECK(data != MAP_FAILED, "mmap");
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { ::munmap(data, bytes); }

  [[nodiscard]] int seals() const { return ::fcntl(file.get(), F_GET_SEALS); }
  void write(std::size_t offset, const char* text) const {
    std::memcpy(data + offset, text, std::strlen(text));
  }

  Fd file;
  const std::size_t bytes;
  std::byte* const data;
};

/// Mappings of this process of memfds that tests have made.
inline std::size_t mappings_of_tests() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:coll-test") != std::string::npos ? 1U : 0U;
  return count;
}

}  // namespace coll::test
