// SPDX-License-Identifier: Apache-2.0
// The rounding and denormal mode of the thread's core.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace coll {

/// While it lives, its thread computes as every process begins: rounding to nearest, denormals
/// kept, nothing trapped. A caller's own mode (-ffast-math, fesetround, feenableexcept) would give
/// its rank other sums, and other plans, than the other ranks have. A thread that is started
/// meanwhile begins in this mode, too. Where the mode is as it should be, which is nearly always,
/// this only reads it.
class UsualFloatMode {
 public:
#if defined(__x86_64__)
  UsualFloatMode() : before_(_mm_getcsr()) {
    if (is_other()) [[unlikely]]
      _mm_setcsr(kUsual);
  }
  ~UsualFloatMode() {
    if (is_other()) [[unlikely]]
      _mm_setcsr(before_);
  }
#elif defined(__aarch64__)
  UsualFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    if (is_other()) [[unlikely]]
      set(kUsual);
  }
  ~UsualFloatMode() {
    if (is_other()) [[unlikely]]
      set(before_);
  }
#else
  UsualFloatMode() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~UsualFloatMode() {
    std::fesetenv(&before_);
  }
#endif
  UsualFloatMode(const UsualFloatMode&) = delete;
  UsualFloatMode& operator=(const UsualFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint32_t kUsual = 0x1f80;  // MXCSR: all traps masked
  static constexpr std::uint32_t kEvents = 0x3f;   // what happened so far: no mode
  [[nodiscard]] bool is_other() const {
    return (before_ & ~kEvents) != kUsual;
  }
  std::uint32_t before_;
#elif defined(__aarch64__)
  static constexpr std::uint64_t kUsual = 0;  // FPCR; events are in FPSR
  [[nodiscard]] bool is_other() const {
    return before_ != kUsual;
  }
  static void set(std::uint64_t mode) {
    asm volatile("msr fpcr, %0" ::"r"(mode) : "memory");
  }
  std::uint64_t before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace coll
