// SPDX-License-Identifier: Apache-2.0
// sys/: the operating system as values and owners. This file: a library loaded at run time.
#include "sys/shared_library.hpp"

#include <dlfcn.h>

namespace coll {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names) {
  std::string why = "no name given";
  // NODELETE: what a library started may outlive the handle.
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return SharedLibrary(handle);
    const char* error = dlerror();
    why = error != nullptr ? error : name;
  }
  return failed(Code::unsupported, why);
}

SharedLibrary::SharedLibrary(void* handle) : handle_(handle, [](void* open) { dlclose(open); }) {}

void* SharedLibrary::address(const char* symbol) const {
  return dlsym(handle_.get(), symbol);
}

}  // namespace coll
