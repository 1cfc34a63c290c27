// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for tests of calls: the emulated driver's, which ends the process where a
// processor reads it, copies only when it is waited for, and knows who waits for what.
#pragma once
#include <collectives/collectives.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "emulated_driver/emulated_cuda.hpp"

namespace collectives::testing {

template <class Function>
inline Function* in_driver(const char* name) {
  static void* const driver = dlopen(EMULATED_CUDA, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(driver == nullptr ? nullptr : dlsym(driver, name));
}
#define DRIVER(function) (*in_driver<decltype(function)>(#function))

constexpr std::byte kPoison{0xcd};

/// Memory of a rank's GPU, or, for comparison, of the host.
class Memory {
 public:
  Memory(std::size_t bytes, int device, int context = 0) : device_(device), bytes_(bytes) {
    if (device < 0) {
      host_.assign(bytes, kPoison);
    } else {
      there_ = DRIVER(emulated_cuda_alloc)(bytes, device, context);
      std::memset(content(), static_cast<int>(kPoison), bytes);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (device_ >= 0) DRIVER(emulated_cuda_free)(there_);
  }
  /// What the call is given.
  template <class T>
  [[nodiscard]] T* at(std::size_t index = 0) {
    return reinterpret_cast<T*>(device_ < 0 ? host_.data() : static_cast<std::byte*>(there_)) +
           index;
  }
  [[nodiscard]] std::byte* content() {
    return device_ < 0 ? host_.data() : DRIVER(emulated_cuda_content)(there_);
  }
  template <class T>
  [[nodiscard]] std::vector<T> values() {
    std::vector<T> all(bytes_ / sizeof(T));
    std::memcpy(all.data(), content(), all.size() * sizeof(T));
    return all;
  }
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i + 4 <= bytes_; i += 4) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 16;
      std::memcpy(content() + i, &value, sizeof value);
    }
  }

 private:
  int device_;
  std::size_t bytes_;
  std::vector<std::byte> host_;
  void* there_ = nullptr;
};

/// An all_reduce of these parts.
inline coll_call_t sum_of_parts(std::span<const coll_part_t> parts) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  call.type = COLL_FLOAT32;
  call.op = COLL_SUM;
  call.parts = parts.data();
  call.part_count = parts.size();
  return call;
}

}  // namespace collectives::testing
