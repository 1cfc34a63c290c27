// SPDX-License-Identifier: Apache-2.0
// Writes the line of progress.
#include "progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "writing/report_text.hpp"

namespace training {
namespace {

constexpr const char* kRewrite = "\r\x1b[K";  // to the line's begin, and clear it

}  // namespace

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 0) return 0;
  const bool known = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

ProgressLine::ProgressLine(RunFacts run, std::size_t columns)
    : run_(std::move(run)), columns_(columns) {}

std::string ProgressLine::line(const StepRecord& last) const {
  std::string text = fmt::format("step {}", last.step);
  if (run_.total_steps > 0) text += fmt::format("/{}", run_.total_steps);
  text += std::isfinite(last.loss) ? fmt::format("  loss {:.4f}", last.loss)
                                   : fmt::format("  loss {}", last.loss);
  text += fmt::format("  {} tokens/s", short_number(sum_.tokens_per_second()));
  text += fmt::format("  exposed {}", percent_text(sum_.exposed_share()));
  if (run_.peak_flops > 0) text += fmt::format("  MFU {}", percent_text(sum_.mfu(run_.peak_flops)));
  if (last.step < run_.total_steps && steps_ > 0) {
    const double each = all_seconds_ / static_cast<double>(steps_);
    text += fmt::format("  {} left",
                        duration_text(each * static_cast<double>(run_.total_steps - last.step)));
  }
  return text;
}

std::string ProgressLine::after(const StepRecord& record, double now) {
  ++steps_;
  all_seconds_ += record.seconds;
  sum_.tokens += record.tokens;
  sum_.flops += record.flops;
  sum_.seconds += record.seconds;
  sum_.exposed += record.exposed;

  std::string out;
  if (!record.note.empty()) {
    if (open_) out += kRewrite;
    open_ = false;
    out += fmt::format("step {}: {}\n", record.step, clean(record.note));
  }
  const bool due = now - shown_at_ >= (columns_ > 0 ? kTerminalEvery : kPlainEvery);
  if (!due && record.step != run_.total_steps) return out;
  const std::string text = line(record);
  // A line that wraps could not be rewritten.
  out += columns_ > 0 ? (open_ ? kRewrite : "") + text.substr(0, columns_ - 1) : text + "\n";
  open_ = columns_ > 0;
  shown_at_ = now;
  sum_ = {};
  return out;
}

std::string ProgressLine::end() {
  return std::exchange(open_, false) ? "\n" : "";
}

}  // namespace training
