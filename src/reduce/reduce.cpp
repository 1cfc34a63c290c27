// SPDX-License-Identifier: Apache-2.0
// Which instruction set this process uses.
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__ARM_NEON) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <array>

#include "base/knobs.hpp"
#include "base/made_once.hpp"
#include "reduce/isa.hpp"

namespace coll::reduce {

#if defined(__x86_64__)
namespace avx512fp16 {
extern const Table table;
}
namespace avx512 {
extern const Table table;
}
namespace avx2 {
extern const Table table;
}
#endif
#if defined(__ARM_NEON)
namespace neonfp16 {
extern const Table table;
}
namespace neon {
extern const Table table;
}
#else
namespace baseline {
extern const Table table;
}
#endif

namespace {

#if defined(__x86_64__)
bool has_f16c() {  // clang 14 has no __builtin_cpu_supports("f16c")
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && has_f16c();
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2();
}
bool has_avx512fp16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & bit_AVX512FP16) != 0;
}
#elif defined(__ARM_NEON)
bool has_neonfp16() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0;
#else
  return false;
#endif
}
#endif

struct Found {
  std::array<const Table*, 4> tables{};
  std::size_t count = 0;

  Found() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (has_avx512fp16()) tables[count++] = &avx512fp16::table;
    if (has_avx512()) tables[count++] = &avx512::table;
    if (has_avx2()) tables[count++] = &avx2::table;
#endif
#if defined(__ARM_NEON)
    if (has_neonfp16()) tables[count++] = &neonfp16::table;
    tables[count++] = &neon::table;
#else
    tables[count++] = &baseline::table;
#endif
  }
};

const Table& chosen() {
  return *made_once([] { return &table_for(knobs().isa); });
}

}  // namespace

std::span<const Table* const> tables() {
  const Found& found = made_once([] { return Found(); });
  return {found.tables.data(), found.count};
}

const Table& table_for(std::string_view name) {
  for (const Table* table : tables())
    if (name == table->name) return *table;
  return *tables().front();
}

const Kernels& kernels(ReduceOp op, DataType type) {
  return chosen().kernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)];
}

const CopyKernels& copy_kernels() {
  return chosen().copies;
}

std::string_view instruction_set() {
  return chosen().name;
}

}  // namespace coll::reduce
