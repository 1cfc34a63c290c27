// SPDX-License-Identifier: Apache-2.0
// A library loaded at run time, where it is installed.
#pragma once
#include <initializer_list>

#include "base/status.hpp"

namespace coll {

/// An open library. It stays loaded for good: what it has started may outlive who opened it.
class SharedLibrary {
 public:
  /// The first of `names` that can be loaded; else why the last one cannot.
  static Result<SharedLibrary> open(std::initializer_list<const char*> names);

  /// Sets `function` to the symbol, null if the library has none; whether it has.
  template <class Function>
  bool find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address(symbol));
    return function != nullptr;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* address(const char* symbol) const;
  void* handle_;
};

}  // namespace coll
