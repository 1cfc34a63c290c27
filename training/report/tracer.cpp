// SPDX-License-Identifier: Apache-2.0
// Writes the spans of a rank: a process for the rank, a thread for each stream.
#include "tracer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "writing/replace_file.hpp"
#include "writing/report_text.hpp"

namespace training {
namespace {

constexpr const char* kStreamNames[kStreams] = {"compute", "communication", "optimizer", "storage"};
constexpr std::size_t kLanes = 1000;  // thread numbers that a stream may use

/// Spans of one thread must lie in each other or apart, and operations in flight need not. A lane
/// is a thread on which a span does: the stream's first has almost all.
class Lanes {
 public:
  /// The lane of a span. Spans come by their begin, longer ones first.
  std::size_t place(std::int64_t begin, std::int64_t end) {
    for (std::size_t lane = 0;; ++lane) {
      if (lane == open_.size()) open_.emplace_back();
      auto& ends = open_[lane];
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      if (ends.empty() || ends.back() >= end || lane + 1 == kLanes) {
        ends.push_back(end);
        return lane;
      }
    }
  }
  [[nodiscard]] std::size_t count() const { return open_.size(); }

 private:
  std::vector<std::vector<std::int64_t>> open_;  ///< ends of the spans that lie in each other
};

/// An event that names a process or thread, or gives its place in the picture.
std::string about(const char* what, std::size_t rank, std::size_t thread,
                  const nlohmann::json& arguments) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{}}})", what, rank, thread,
                     arguments.dump());
}

}  // namespace

void Tracer::write(const std::string& path, std::size_t rank) const {
  std::vector<const Span*> sorted;
  sorted.reserve(spans_.size());
  for (const Span& span : spans_) sorted.push_back(&span);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Span* a, const Span* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  // Times in the file begin near 0, so that a double holds their nanoseconds.
  const std::int64_t base = sorted.empty() ? 0 : sorted.front()->begin;
  Lanes lanes[kStreams];
  std::map<std::string, std::string> names;  // as JSON: there are few
  std::vector<std::string> events;
  events.reserve(sorted.size() + 8);
  for (const Span* span : sorted) {
    const auto stream = static_cast<std::size_t>(span->stream);
    const auto& [bytes, step] = span->arguments;
    auto name = names.find(span->name);
    if (name == names.end())
      name = names.emplace(span->name, nlohmann::json(clean(span->name)).dump()).first;
    events.push_back(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}{}{}}}}})",
        name->second, kStreamNames[stream], rank,
        stream * kLanes + lanes[stream].place(span->begin, span->end),
        static_cast<double>(span->begin - base) / 1e3,
        static_cast<double>(std::max<std::int64_t>(span->end - span->begin, 0)) / 1e3,
        bytes > 0 ? fmt::format("\"bytes\":{}", bytes) : "", bytes > 0 && step > 0 ? "," : "",
        step > 0 ? fmt::format("\"step\":{}", step) : ""));
  }
  events.push_back(about("process_name", rank, 0, {{"name", fmt::format("rank {}", rank)}}));
  events.push_back(about("process_sort_index", rank, 0, {{"sort_index", rank}}));
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    for (std::size_t lane = 0; lane < lanes[stream].count(); ++lane) {
      const std::string more = lane == 0 ? "" : fmt::format(" {}", lane + 1);
      const std::size_t thread = stream * kLanes + lane;
      events.push_back(about("thread_name", rank, thread, {{"name", kStreamNames[stream] + more}}));
      events.push_back(about("thread_sort_index", rank, thread, {{"sort_index", thread}}));
    }
  }
  replace_file(path,
               fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"rank\":{},"
                           "\"clock_begin_ns\":{},\"dropped\":{}}},\n\"traceEvents\":[\n{}\n]}}\n",
                           rank, base, dropped_, fmt::join(events, ",\n")));
}

}  // namespace training
