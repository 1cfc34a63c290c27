// SPDX-License-Identifier: Apache-2.0
// Calls into a program's own store.
#include "c_api/callers_store.hpp"

#include <algorithm>
#include <array>

namespace coll {
namespace {

Status store_failure(const char* function, const std::string& key, coll_status_t status) {
  // The program may return anything.
  const bool known = status > COLL_IN_PROGRESS && status <= COLL_INTERNAL;
  return failed(known ? static_cast<Code>(status) : Code::unreachable,
                "the program's store: " + std::string(function) + "(\"" + key + "\") returned " +
                    std::to_string(static_cast<int>(status)) +
                    (known ? " (" + std::string(coll_status_name(status)) + ")" : ""));
}

}  // namespace

Status CallersStore::check(const coll_store_t* given) {
  const char* wrong = nullptr;
  if (given == nullptr) {
    wrong = "store is null";
  } else if (given->size < sizeof *given || given->version == 0) {
    wrong = "the store is not initialised";
  } else if (given->set == nullptr || given->get == nullptr) {
    wrong = "the store lacks a function";
  }
  if (wrong == nullptr) return {};
  return failed(Code::invalid_argument, std::string("coll_comm_init_store: ") + wrong,
                "begin with coll_store_t store = COLL_STORE_INIT, then give it set and get");
}

Status CallersStore::set(const std::string& key, const std::string& value) {
  const coll_status_t status = given_.set(given_.context, key.c_str(), value.data(), value.size());
  return status == COLL_SUCCESS ? Status{} : store_failure("set", key, status);
}

Result<std::optional<std::string>> CallersStore::get(const std::string& key, Deadline deadline) {
  std::array<char, COLL_STORE_VALUE_BYTES_MAX> value;
  std::size_t length = 0;
  const std::chrono::duration<double> left = deadline - Clock::now();
  const coll_status_t status = given_.get(given_.context, key.c_str(), value.data(), value.size(),
                                          &length, std::max(left.count(), 0.0));
  if (status == COLL_DEADLINE) return std::optional<std::string>();
  if (status != COLL_SUCCESS) return store_failure("get", key, status);
  if (length > value.size()) {
    return failed(Code::mismatch,
                  "the program's store: \"" + key + "\" has a value of " + std::to_string(length) +
                      " bytes, which no rank has put there",
                  "give communicators a key that nothing else uses");
  }
  return std::optional(std::string(value.data(), length));
}

}  // namespace coll
