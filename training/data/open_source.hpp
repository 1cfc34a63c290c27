// SPDX-License-Identifier: Apache-2.0
// From a text of the command line to a source.
#pragma once
#include <memory>
#include <string>

#include "draw.hpp"
#include "source.hpp"

namespace training {

/// `bible`, `verses` (the Bible by verses), `text:PATH`, `fashion-mnist` or `fashion-mnist:FOLDER`,
/// `markov` or `markov:STATES`. Throws Failure where the data is not there, with what to install;
/// it never takes other data instead.
std::unique_ptr<Source> open_source(const std::string& description, const Draw& draw);

}  // namespace training
