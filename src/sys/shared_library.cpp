// SPDX-License-Identifier: Apache-2.0
// A library loaded at run time.
#include "sys/shared_library.hpp"

#include <dlfcn.h>

#include <string>

namespace coll {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names) {
  std::string why = "no name given";
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary(handle);
    const char* error = dlerror();
    why = error != nullptr ? error : name;
  }
  return failed(Code::unsupported, why);
}

void* SharedLibrary::address(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace coll
