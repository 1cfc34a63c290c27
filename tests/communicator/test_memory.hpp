// SPDX-License-Identifier: Apache-2.0
// Memory for buffers, of each kind that the library treats differently.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <collectives/collectives.hpp>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace collectives::testing {

/// Where buffers come from: the heap, coll_mem_alloc, or a memfd of the program that it registers.
enum class Kind : unsigned char { heap, allocated, registered };

/// Zeroed bytes. Ends the process where there are none, as no test can go on without.
class TestMemory {
 public:
  TestMemory(std::size_t bytes, Kind kind) : kind_(kind), bytes_(bytes) {
    if (kind == Kind::allocated) {
      coll_mem_alloc(&data_, bytes);
    } else if (kind == Kind::registered) {
      map();
    } else {
      data_ = std::calloc(1, bytes);
    }
    if (data_ == nullptr) give_up("no memory");
  }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  ~TestMemory() {
    if (kind_ == Kind::allocated) {
      coll_mem_free(data_);
    } else if (kind_ == Kind::registered) {
      registration_.reset();
      munmap(data_, bytes_);
    } else {
      std::free(data_);
    }
  }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {as<std::byte>(), bytes_}; }

 private:
  static void give_up(const char* what) {
    std::cerr << what << ": " << coll_last_error() << "\n";
    std::_Exit(2);
  }
  void map() {
    const int file = memfd_create("coll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) give_up("memfd");
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) give_up("mmap");
    data_ = data;
    auto made = Registration::of(data, bytes_);
    if (!made) give_up("register");
    registration_.emplace(std::move(*made));
    close(file);
  }

  Kind kind_;
  std::size_t bytes_;
  void* data_ = nullptr;
  std::optional<Registration> registration_;
};

}  // namespace collectives::testing
