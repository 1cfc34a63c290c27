// SPDX-License-Identifier: Apache-2.0
// Drives the phases of checkpoint_writer.hpp.
#include "run_checkpoints.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "../checkpoint/checkpoint_folder.hpp"
#include "agreement.hpp"
#include "export_weights.hpp"

namespace training {

RunCheckpoints::RunCheckpoints(std::string folder, std::size_t keep, Mesh& mesh,
                               std::vector<WholeParameter> whole, std::string settings)
    : options_{std::move(folder), mesh.rank(), mesh.shape().ranks(), keep},
      mesh_(mesh),
      whole_(std::move(whole)),
      settings_(std::move(settings)) {}

std::string RunCheckpoints::resume(Trainer& trainer) {
  if (mesh_.rank() == 0) tidy_checkpoints(options_.folder);
  value_of(mesh_.world.barrier());
  const Together together{options_.rank, options_.ranks,
                          [&](const std::string& own) { return first_text(mesh_.world, own); }};
  LatestCheckpoint latest = open_latest(options_.folder, together);
  options_.refused = latest.refused;
  writer_.emplace(options_);
  async_.emplace(*writer_);
  if (!latest.reader) return latest.text;
  CheckpointReader& reader = *latest.reader;
  const auto state = nlohmann::json::parse(reader.manifest().trainer);
  const auto ours = nlohmann::json::parse(settings_);
  for (const auto& [name, value] : ours.items()) {
    const auto theirs = state.at("settings").value(name, nlohmann::json());
    if (theirs != value) {
      throw Failure(
          fmt::format("the checkpoint in {} was made with {} {}, and this run has {}; use "
                      "the same, or another folder",
                      options_.folder.string(), name, theirs.dump(), value.dump()),
          Failure::kBadUsage);
    }
  }
  trainer.load(
      [&](const Trainer::Part& part) {
        read_part(part, [&](std::size_t first, std::span<float> values) {
          reader.read({part.state, part.parameter.name, first, values.size()}, values);
        });
      },
      reader.manifest().step,
      {state.at("loss_scale").get<float>(), state.at("good_steps").get<std::size_t>()});
  return fmt::format("{}{}{} goes on from step {}", latest.text, latest.text.empty() ? "" : " ",
                     options_.folder.string(), reader.manifest().step);
}

std::string RunCheckpoints::save(Trainer& trainer) {
  std::string note = finish();
  step_ = trainer.steps();
  if (mesh_.rank() == 0) writer_->prepare(step_);
  value_of(mesh_.world.barrier());
  std::vector<Piece> pieces;
  std::vector<OwnedPiece> owned;
  for (const State state : {State::weights, State::first_moment, State::second_moment}) {
    for (OwnedPiece& piece : handed_out(trainer, mesh_, state)) {
      pieces.push_back(piece.piece);
      owned.push_back(std::move(piece));
    }
  }
  snapshot_.emplace(std::move(pieces));
  for (std::size_t i = 0; i < owned.size(); ++i)
    trainer.read(owned[i].piece.state, owned[i].bucket, owned[i].first, snapshot_->of(i));
  trainer_ = nlohmann::json{{"settings", nlohmann::json::parse(settings_)},
                            {"loss_scale", trainer.scaler().factor},
                            {"good_steps", trainer.scaler().good}}
                 .dump();
  async_->start(step_, *snapshot_);
  return note;
}

bool RunCheckpoints::written() {
  return snapshot_ && async_->done();
}

std::string RunCheckpoints::commit() {
  if (mesh_.rank() == 0) writer_->commit(step_, whole_, trainer_);
  snapshot_.reset();
  return fmt::format("checkpoint of step {} written", step_);
}

std::string RunCheckpoints::finish() {
  if (!snapshot_) return "";
  async_->wait();
  value_of(mesh_.world.barrier());
  std::string note = commit();
  value_of(mesh_.world.barrier());
  return note;
}

}  // namespace training
