// SPDX-License-Identifier: Apache-2.0
// coll-train's command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "../parallel/mesh.hpp"
#include "../trainer/trainer.hpp"

namespace training {

struct TrainOptions {
  TrainerOptions trainer;
  MeshShape mesh = {0, 1, 1};  ///< data 0: all ranks that the others leave
  bool same_bits = true;

  std::string data = "bible", model;  ///< model "": what fits the data
  std::size_t sequences = 0;          ///< of a micro-batch; 0: 2 of a text, 16 images
  std::size_t tokens = 64, channels = 128, layers = 4, heads = 4, hidden = 128;
  bool batch_norm = false;
  std::string init;  ///< safetensors file of the first weights; "": from the seed

  std::size_t steps = 1000;
  double seconds = 0;  ///< most; 0: no limit
  std::size_t validate_every = 0;
  std::uint64_t validation_batches = 128;

  bool offload_activations = false;
  std::string offload = "none";  ///< or "cpu", or a folder
  std::size_t adam_threads = 1;
  std::size_t device_memory = 0;  ///< bytes of the arena; 0: no limit
  std::string hook;
  std::optional<std::size_t> staleness;  ///< asynchronous training
  double sleep_us = 0;                   ///< virtual compute: of a unit's forward pass; 0: real

  std::string save;  ///< folder of checkpoints
  std::size_t save_every = 0, keep = 2;
  std::string exported;  ///< safetensors file of the last weights

  std::string report, log, tensorboard, prometheus, trace;
  bool estimate = false, list_checkpoints = false, json = false, quiet = false;
};

struct Parsed {
  TrainOptions options;
  bool helped = false;             ///< --help was printed: there is nothing left to do
  std::optional<Failure> refusal;  ///< bad usage
};
Parsed parse_train_options(int argc, const char* const* argv);

}  // namespace training
