// SPDX-License-Identifier: Apache-2.0
// The one table of knobs (environment COLL_*).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.hpp"

namespace coll {

/// The value of every knob. A member exists only if it has a row in the table of knobs.cpp.
struct Knobs {
  // who and where
  std::int64_t rank;
  std::int64_t size;
  std::string rendezvous;
  std::string interface;
  std::string secret;
  // how long
  double deadline_s;
  double connect_s;
  double spin_us;
  std::string progress_cpus;
  // what to use
  std::string transports;
  std::string verbs;
  std::string algorithm;
  std::string order;
  std::string tuning;
  std::string plans;
  std::string topology;
  std::int64_t lanes;
  std::int64_t slice_bytes;
  std::int64_t credits;
  std::string isa;
  // what to say
  std::string log;
};

struct Knob {
  const char* name;      ///< "COLL_DEADLINE_S"
  const char* fallback;  ///< the default, as a user would write it
  const char* unit;      ///< "s", "bytes", "" …
  const char* sentence;  ///< what it does, for the README, coll-info and the start-up log
  std::variant<std::int64_t Knobs::*, double Knobs::*, std::string Knobs::*> member;
  /// Numbers outside are refused; nothing is cut silently.
  struct Range {
    double least = 0;
    double most = 0;
  } range = {};
  const char* choices = nullptr;  ///< "warn, info": other texts are refused, but for ""
  bool secret = false;            ///< the value is never printed
};

/// Every knob there is, in the order of the README's table; at most 32.
std::span<const Knob> knob_table();

/// Reads every knob through `get` (null or empty: not set). Byte counts take K, M, G suffixes
/// (powers of 1024). An unreadable value is an error naming the knob, the value and what it takes.
Result<Knobs> parse_knobs(const std::function<const char*(const char*)>& get);

/// A whole number as knobs take it: "64", "64K", "1.5M". Nothing for any other text.
std::optional<std::int64_t> parse_whole(std::string_view text);

/// The process's knobs, read from the environment once. A bad value leaves the default here;
/// creating a communicator then returns it as an error (knobs_status).
const Knobs& knobs();
const Status& knobs_status();

/// The current value as text ("***" for a secret), for logs and coll-info.
std::string knob_value(const Knob& knob, const Knobs& values);

}  // namespace coll
