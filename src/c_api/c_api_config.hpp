// SPDX-License-Identifier: Apache-2.0
// What a program asks for in a config, over the knobs.
#pragma once
#include <string>

#include "c_api/c_api_joining.hpp"
#include "communicator/communicator.hpp"

namespace coll {

/// The config, which may be of an older, shorter version.
Result<coll_config_t> read_config(const coll_config_t* given);

/// The config's members over the knobs.
Result<Joining> joining_of(const coll_config_t& config);

/// A text of the config, or else the knob's.
inline std::string chosen_text(const char* chosen, const std::string& knob) {
  return chosen != nullptr ? std::string(chosen) : knob;
}

/// The handle in a config that is read without a failure.
coll_joining_t* joining_handle(const coll_config_t* config);

}  // namespace coll
