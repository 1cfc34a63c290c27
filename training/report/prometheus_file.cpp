// SPDX-License-Identifier: Apache-2.0
// Writes metrics `coll_train_*`.
#include "prometheus_file.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "writing/replace_file.hpp"
#include "writing/report_text.hpp"

namespace training {
namespace {

struct Sample {
  std::string label;  ///< of the metric: `phase="forward"`; empty: it has none
  double value;
};

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : clean(text)) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);  // the shortest text of that very number
}

/// The metrics of one run and rank.
class Exposition {
 public:
  explicit Exposition(const RunFacts& run)
      : labels_(fmt::format("run=\"{}\",rank=\"{}\"", label_value(run.name), run.rank)) {}

  void metric(const char* name, const char* type, const char* help,
              const std::vector<Sample>& samples) {
    text_ +=
        fmt::format("# HELP coll_train_{0} {1}\n# TYPE coll_train_{0} {2}\n", name, help, type);
    for (const Sample& sample : samples) {
      text_ += fmt::format("coll_train_{}{{{}{}{}}} {}\n", name, labels_,
                           sample.label.empty() ? "" : ",", sample.label, value_text(sample.value));
    }
  }
  void gauge(const char* name, const char* help, const std::vector<Sample>& samples) {
    metric(name, "gauge", help, samples);
  }
  void gauge(const char* name, const char* help, double value) {
    metric(name, "gauge", help, {{"", value}});
  }
  void counter(const char* name, const char* help, std::uint64_t value) {
    metric(name, "counter", help, {{"", static_cast<double>(value)}});
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string labels_, text_;
};

std::vector<Sample> samples_by_use(const std::array<std::size_t, kUses>& bytes) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < kUses; ++i) {
    samples.push_back(
        {fmt::format("use=\"{}\"", name_of(static_cast<Use>(i))), static_cast<double>(bytes[i])});
  }
  return samples;
}

}  // namespace

PrometheusFile::PrometheusFile(std::string path, RunFacts run)
    : path_(std::move(path)), run_(std::move(run)) {}

void PrometheusFile::add(const StepRecord& record) {
  const StepRecord before = std::exchange(last_, record);
  // Validation is measured now and then: its last figures stay.
  if (!last_.validation_loss) last_.validation_loss = before.validation_loss;
  if (!last_.validation_accuracy) last_.validation_accuracy = before.validation_accuracy;
  ++steps_;
  tokens_ += record.tokens;
  bytes_sent_ += record.bytes_sent;
  seconds_ += record.seconds;
  forward_ += record.forward;
  backward_ += record.backward;
  optimizer_ += record.optimizer;
  exposed_ += record.exposed;
  other_ += record.other();
}

std::string PrometheusFile::text() const {
  Exposition out(run_);
  out.gauge("ranks", "Ranks of the run.", static_cast<double>(run_.ranks));
  out.gauge("total_steps", "Steps that the run is to do.", static_cast<double>(run_.total_steps));
  out.gauge("step", "Steps done, with those before a restart.", static_cast<double>(last_.step));
  out.counter("steps_total", "Steps since the program began.", steps_);
  out.counter("tokens_total",
              "Rows that counted in the loss, of all ranks, since the program began.", tokens_);
  out.counter("sent_bytes_total", "Bytes that this rank sent since the program began.",
              bytes_sent_);
  out.metric("phase_seconds_total", "counter",
             "Seconds of this rank since the program began, by what it did.",
             {{"phase=\"forward\"", forward_},
              {"phase=\"backward\"", backward_},
              {"phase=\"optimizer\"", optimizer_},
              {"phase=\"exposed_communication\"", exposed_},
              {"phase=\"other\"", other_}});
  out.metric("seconds_total", "counter", "Seconds of all steps since the program began.",
             {{"", seconds_}});
  if (steps_ == 0) return out.text();
  out.gauge("loss", "Mean loss of the last step.", last_.loss);
  out.gauge("grad_norm", "Norm of the last step's gradient.", last_.grad_norm);
  out.gauge("learning_rate", "Learning rate of the last step.", last_.learning_rate);
  out.gauge("loss_scale", "Factor of the loss against underflow.", last_.loss_scale);
  if (last_.validation_loss) {
    out.gauge("validation_loss", "Mean loss of the last validation.", *last_.validation_loss);
  }
  if (last_.validation_accuracy) {
    out.gauge("validation_accuracy_ratio", "Accuracy of the last validation.",
              *last_.validation_accuracy);
  }
  out.gauge("step_seconds", "Seconds of the last step.", last_.seconds);
  out.gauge("tokens_per_second", "Tokens of all ranks per second, in the last step.",
            last_.tokens_per_second());
  out.gauge("communication_seconds",
            "Seconds of the last step's operations, each from issue to end.", last_.communication);
  out.gauge("exposed_ratio", "Share of the last step in which this rank waited for communication.",
            last_.exposed_share());
  if (run_.peak_flops > 0) {
    out.gauge("mfu_ratio", "Model FLOP/s of the last step over the measured peak.",
              last_.mfu(run_.peak_flops));
  }
  out.gauge("memory_bytes", "Memory in use on this rank, by use.", samples_by_use(last_.memory));
  out.gauge("memory_peak_bytes", "Most memory in use on this rank, by use.",
            samples_by_use(last_.peak));
  return out.text();
}

void PrometheusFile::write() const {
  replace_file(path_, text());
}

}  // namespace training
