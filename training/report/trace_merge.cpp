// SPDX-License-Identifier: Apache-2.0
// Makes one trace of several ranks' traces, on one clock.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "../memory/failure.hpp"
#include "tracer.hpp"
#include "writing/replace_file.hpp"

namespace training {
namespace {

using nlohmann::ordered_json;

struct RankTrace {
  ordered_json events;
  std::int64_t begin = 0;  ///< of its times, on the common clock
  std::uint64_t rank = 0, dropped = 0;
  bool empty = true;  ///< it has no span
};

RankTrace read_trace(const std::string& path, std::int64_t offset) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(fmt::format("cannot read the trace {}. Each rank writes one.", path));
  try {
    ordered_json document = ordered_json::parse(file);
    RankTrace trace;
    const ordered_json& about = document.at("otherData");
    trace.begin = about.at("clock_begin_ns").get<std::int64_t>() + offset;
    trace.rank = about.at("rank").get<std::uint64_t>();
    trace.dropped = about.at("dropped").get<std::uint64_t>();
    trace.events = std::move(document.at("traceEvents"));
    for (const ordered_json& event : trace.events) {
      if (event.at("ph") != "X") continue;
      trace.empty = false;
      if (!event.at("ts").is_number()) throw Failure(fmt::format("{}: a time is no number", path));
    }
    return trace;
  } catch (const ordered_json::exception& problem) {
    throw Failure(
        fmt::format("{} is no trace that coll-train wrote: {}. Give the ranks' own files, "
                    "not a merged one.",
                    path, problem.what()));
  }
}

}  // namespace

void merge_traces(const std::vector<std::string>& paths, const std::vector<std::int64_t>& offsets,
                  const std::string& to) {
  if (paths.size() != offsets.size()) {
    throw Failure(fmt::format("{} traces and {} offsets of clocks: give one for each trace.",
                              paths.size(), offsets.size()));
  }
  std::vector<RankTrace> traces;
  std::set<std::uint64_t> ranks;
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::uint64_t dropped = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    traces.push_back(read_trace(paths[i], offsets[i]));
    const RankTrace& trace = traces.back();
    if (!ranks.insert(trace.rank).second) {
      throw Failure(fmt::format("{} is a second trace of rank {}: give one for each rank.",
                                paths[i], trace.rank));
    }
    if (!trace.empty) begin = std::min(begin, trace.begin);
    dropped += trace.dropped;
  }
  ordered_json merged;
  merged["displayTimeUnit"] = "ms";
  merged["otherData"] = {{"ranks", ranks.size()}, {"dropped", dropped}};
  ordered_json& events = merged["traceEvents"] = ordered_json::array();
  for (RankTrace& trace : traces) {
    const double shift = static_cast<double>(trace.empty ? 0 : trace.begin - begin) / 1e3;
    for (ordered_json& event : trace.events) {
      if (event["ph"] == "X") event["ts"] = event["ts"].get<double>() + shift;
      events.push_back(std::move(event));
    }
  }
  replace_file(to, merged.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace training
