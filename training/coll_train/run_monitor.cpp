// SPDX-License-Identifier: Apache-2.0
// Hands each step to the log, the terminal, TensorBoard, Prometheus, the trace and the report.
#include "run_monitor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace training {
namespace {

double now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t sent_bytes(const Mesh& mesh) {
  std::uint64_t bytes = 0;
  for (const collectives::Communicator* comm : {&mesh.data, &mesh.tensor, &mesh.pipeline})
    bytes += value_of(comm->stats()).bytes_sent;
  return bytes;
}

}  // namespace

RunMonitor::RunMonitor(const TrainOptions& options, RunFacts facts, double flops, Mesh& mesh,
                       Arena& arena, Trainer& trainer, WorkLog& work)
    : options_(options),
      flops_(flops),
      mesh_(mesh),
      arena_(arena),
      trainer_(trainer),
      work_(work),
      tracer_(!options.trace.empty()),
      sent_(sent_bytes(mesh)) {
  report_.run = std::move(facts);
  watch_passes();
  watch_traffic(trainer.data_traffic());
  watch_traffic(trainer.pipeline_traffic());
  if (!leads()) return;
  if (!options.log.empty()) log_.emplace(options.log, report_.run, trainer.steps() > 0);
  if (!options.tensorboard.empty())
    tensorboard_.emplace(options.tensorboard, report_.run, trainer.steps() + 1);
  if (!options.prometheus.empty()) prometheus_.emplace(options.prometheus, report_.run);
  if (!options.quiet && !options.json)
    progress_.emplace(report_.run, terminal_columns(STDOUT_FILENO));
}

void RunMonitor::watch_passes() {
  if (!tracer_.on()) return;
  trainer_.stage().observe([this](Pass pass, std::size_t unit, Clock::time_point begin) {
    constexpr const char* kNames[] = {"forward ", "recompute ", "backward "};
    tracer_.span(Stream::compute,
                 kNames[static_cast<std::size_t>(pass)] + trainer_.units()[unit]->name(),
                 nanoseconds(begin), Tracer::now(), {0, trainer_.steps() + 1});
  });
}

void RunMonitor::watch_traffic(Traffic& traffic) {
  traffic.observe(
      [this](const char* name, std::size_t bytes, Clock::time_point begin, Clock::time_point end) {
        bytes_[name] += bytes;
        tracer_.span(Stream::communication, name, nanoseconds(begin), nanoseconds(end),
                     {bytes, trainer_.steps() + 1});
      });
}

void RunMonitor::trace_work(std::uint64_t step) {
  if (!tracer_.on()) return;
  for (const auto& [kind, bytes, begin, end] : work_.take()) {
    constexpr const char* kNames[] = {"read", "adam", "write"};
    tracer_.span(kind == WorkLog::Kind::adam ? Stream::optimizer : Stream::storage,
                 kNames[static_cast<std::size_t>(kind)], nanoseconds(begin), nanoseconds(end),
                 {bytes, step});
  }
}

void RunMonitor::after(const StepResult& step, const StepResult* validation, std::string note) {
  trace_work(step.step + 1);
  const double exposed = step.communication.exposed;
  std::vector<double> own(mesh_.shape().ranks());
  const double mine = step.forward + step.backward;
  value_of(mesh_.world.all_gather<double>({&mine, 1}, own));
  paces_.add(own);
  if (!leads()) return;

  StepRecord record;
  record.step = step.step + 1;
  record.loss = step.loss;
  record.grad_norm = step.norm;
  record.learning_rate = static_cast<double>(step.rate);
  record.loss_scale = static_cast<double>(step.loss_scale);
  record.tokens = step.rows;
  record.seconds = step.seconds;
  record.forward = step.forward;
  record.backward = step.backward;
  record.optimizer = step.optimizer;
  record.exposed = exposed;
  record.communication = step.communication.busy;
  record.own_compute = mine;
  record.bytes_sent = sent_bytes(mesh_) - sent_;
  sent_ += record.bytes_sent;
  for (std::size_t i = 0; i < kUses; ++i) {
    record.memory[i] = arena_.bytes(static_cast<Use>(i));
    record.peak[i] = arena_.peak(static_cast<Use>(i));
  }
  record.peak_of_all = arena_.peak();
  record.flops = flops_;
  if (validation != nullptr) {
    record.validation_loss = validation->loss;
    record.validation_accuracy = validation->accuracy;
  }
  if (step.skipped) note += note.empty() ? "step skipped: the gradient is not finite" : "";
  record.note = note;

  if (log_) log_->write(record);
  if (tensorboard_) tensorboard_->write(record);
  if (prometheus_) {
    prometheus_->add(record);
    if (Clock::now() - written_ > std::chrono::seconds(1)) {
      prometheus_->write();
      written_ = Clock::now();
    }
  }
  if (progress_) fmt::print("{}", progress_->after(record, now()));
  std::fflush(stdout);
  report_.steps.push_back(std::move(record));
}

void RunMonitor::say(const std::string& text) {
  if (!leads() || options_.quiet || options_.json || text.empty()) return;
  if (progress_) fmt::print("{}", progress_->end());
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void RunMonitor::finish() {
  if (tracer_.on()) {
    // The ranks leave a barrier at about the same time: there their clocks are compared.
    const auto path = [&](std::size_t rank) {
      return fmt::format("{}.rank{}", options_.trace, rank);
    };
    value_of(mesh_.world.barrier());
    const std::int64_t here = Tracer::now();
    std::vector<std::int64_t> clocks(mesh_.shape().ranks());
    value_of(mesh_.world.all_gather<std::int64_t>({&here, 1}, clocks));
    tracer_.write(path(mesh_.rank()), mesh_.rank());
    value_of(mesh_.world.barrier());
    if (leads()) {
      std::vector<std::string> paths;
      std::vector<std::int64_t> offsets;
      for (std::size_t rank = 0; rank < clocks.size(); ++rank) {
        paths.push_back(path(rank));
        offsets.push_back(clocks[0] - clocks[rank]);
      }
      merge_traces(paths, offsets, options_.trace);
    }
    value_of(mesh_.world.barrier());
    (void)std::remove(path(mesh_.rank()).c_str());
  }
  if (!leads()) return;
  if (prometheus_) prometheus_->write();
  if (progress_) fmt::print("{}", progress_->end());
  report_.bytes_by_operation.assign(bytes_.begin(), bytes_.end());
  const Paces paces = paces_.paces();
  if (mesh_.shape().ranks() > 1 && paces.steps >= kStragglerSteps)
    report_.stragglers = straggler_text(paces);
  if (!options_.report.empty()) {
    std::filesystem::create_directories(options_.report);
    write_report(report_, options_.report);
  }
  if (options_.json)
    fmt::print("{}\n", json_text(report_json(report_)));
  else if (!options_.quiet)
    fmt::print("{}", report_table(report_));
}

}  // namespace training
