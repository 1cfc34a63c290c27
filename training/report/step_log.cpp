// SPDX-License-Identifier: Apache-2.0
// Writes steps as JSON lines.
#include "step_log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace training {
namespace {

nlohmann::ordered_json json_by_use(const std::array<std::size_t, kUses>& bytes) {
  nlohmann::ordered_json out;
  for (std::size_t i = 0; i < kUses; ++i) out[name_of(static_cast<Use>(i))] = bytes[i];
  return out;
}

}  // namespace

nlohmann::ordered_json to_json(const StepRecord& record, const RunFacts& run) {
  nlohmann::ordered_json out;
  out["step"] = record.step;
  out["rank"] = run.rank;
  out["loss"] = record.loss;
  out["grad_norm"] = record.grad_norm;
  out["learning_rate"] = record.learning_rate;
  out["loss_scale"] = record.loss_scale;
  out["tokens"] = record.tokens;
  out["seconds"] = record.seconds;
  out["tokens_per_second"] = record.tokens_per_second();
  out["forward_seconds"] = record.forward;
  out["backward_seconds"] = record.backward;
  out["optimizer_seconds"] = record.optimizer;
  out["communication_seconds"] = record.communication;
  out["exposed_seconds"] = record.exposed;
  out["own_compute_seconds"] = record.own_compute;
  out["bytes_sent"] = record.bytes_sent;
  out["memory_bytes"] = json_by_use(record.memory);
  out["memory_peak_bytes"] = json_by_use(record.peak);
  out["memory_peak_of_all_bytes"] = record.peak_of_all;
  out["flops"] = record.flops;
  out["mfu"] = record.mfu(run.peak_flops);
  if (record.validation_loss) out["validation_loss"] = *record.validation_loss;
  if (record.validation_accuracy) out["validation_accuracy"] = *record.validation_accuracy;
  if (!record.note.empty()) out["note"] = record.note;
  return out;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

StepLog::StepLog(std::string path, RunFacts run, bool append)
    : path_(std::move(path)), run_(std::move(run)) {
  errno = 0;
  file_.open(path_, std::ios::binary | (append ? std::ios::app : std::ios::trunc));
  check("open");
}

void StepLog::write(const StepRecord& record) {
  errno = 0;
  file_ << json_text(to_json(record, run_)) << '\n' << std::flush;
  check("write to");
}

void StepLog::check(const char* what) const {
  if (file_) return;
  throw Failure(
      fmt::format("cannot {} the log of steps {}: {}. Give a folder that exists and has "
                  "room.",
                  what, path_, std::strerror(errno != 0 ? errno : EIO)));
}

}  // namespace training
