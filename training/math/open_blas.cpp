// SPDX-License-Identifier: Apache-2.0
// Loads OpenBLAS by its name in every distribution.
#include "open_blas.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>

#include "kernels.hpp"

namespace training {
namespace {

/// The newest kernels of OpenBLAS for the processor's instruction set; null: as it likes.
const char* core_of_processor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return nullptr;
}

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::optional<OpenBlas> load() {
  if (const char* core = core_of_processor()) setenv("OPENBLAS_CORETYPE", core, 0);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  OpenBlas blas;
  blas.sgemm = find<OpenBlas::Product<float>>(library, "cblas_sgemm");
  blas.dgemm = find<OpenBlas::Product<double>>(library, "cblas_dgemm");
  const auto threads = find<void (*)(int)>(library, "openblas_set_num_threads");
  const auto core = find<const char* (*)()>(library, "openblas_get_corename");
  const auto config = find<const char* (*)()>(library, "openblas_get_config");
  if (blas.sgemm == nullptr || blas.dgemm == nullptr || threads == nullptr || core == nullptr ||
      config == nullptr) {
    return std::nullopt;
  }
  threads(1);
  blas.core = core();
  // "OpenBLAS 0.3.21 NO_LAPACKE …"
  const std::string text = config();
  const std::size_t begin = text.find(' ') + 1;
  blas.version = text.substr(begin, text.find(' ', begin) - begin);
  return blas;
}

}  // namespace

const OpenBlas* open_blas() {
  static const std::optional<OpenBlas> loaded = load();
  return loaded ? &*loaded : nullptr;
}

std::string describe_products() {
  const OpenBlas* const blas = open_blas();
  if (blas == nullptr) return std::string("own, ") + table().name;
  return "OpenBLAS " + blas->version + " (" + blas->core + ")";
}

}  // namespace training
