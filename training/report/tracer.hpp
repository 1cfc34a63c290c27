// SPDX-License-Identifier: Apache-2.0
// What a rank did when: spans of time by stream, written as Chrome trace events ("Trace Event
// Format", Google), which chrome://tracing and Perfetto show.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace training {

/// What the training thread computes, operations between ranks, and what an optimizer does on
/// threads of its own: computation, and transfers of its file.
enum class Stream { compute, communication, optimizer, storage };
inline constexpr std::size_t kStreams = 4;

struct SpanArguments {
  std::uint64_t bytes = 0;  ///< 0: none moved
  std::uint64_t step = 0;   ///< 0: of no step
};

/// Records spans, or nothing if it is off. One thread uses it; what another thread did is recorded
/// when the training thread learns that it is done.
class Tracer {
 public:
  /// Spans of about 80 bytes each; later ones are counted and not kept.
  static constexpr std::size_t kMostSpans = 1'000'000;

  explicit Tracer(bool on = false, std::size_t most = kMostSpans) : on_(on), most_(most) {}

  /// Nanoseconds of this host's steady clock.
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  [[nodiscard]] bool on() const { return on_; }
  void span(Stream stream, std::string_view name, std::int64_t begin, std::int64_t end,
            const SpanArguments& arguments = {}) {
    if (!on_) return;
    if (spans_.size() == most_) {
      ++dropped_;
      return;
    }
    spans_.push_back({begin, end, std::string(name), arguments, stream});
  }

  /// Writes the file of this rank; `dropped` in it says how many spans were too many. Throws
  /// Failure.
  void write(const std::string& path, std::size_t rank) const;

 private:
  struct Span {
    std::int64_t begin, end;
    std::string name;
    SpanArguments arguments;
    Stream stream;
  };
  bool on_;
  std::size_t most_, dropped_ = 0;
  std::vector<Span> spans_;
};

/// Makes one file of several ranks'. `offsets[i]`, in nanoseconds, added to the clock of paths[i]
/// gives the common clock. The first event begins at 0. Throws Failure.
void merge_traces(const std::vector<std::string>& paths, const std::vector<std::int64_t>& offsets,
                  const std::string& to);

}  // namespace training
