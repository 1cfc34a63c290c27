// SPDX-License-Identifier: Apache-2.0
// What a call says when it fails.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "memory/failure.hpp"

namespace training {

/// The text of the Failure that `call` throws.
template <class Call>
std::string failure_of(Call call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  ADD_FAILURE() << "it does not fail";
  return {};
}

}  // namespace training
