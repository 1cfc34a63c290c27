// SPDX-License-Identifier: Apache-2.0
// What one step of training says of itself, and what the whole run does. The trainer fills these;
// all else in this room reads them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../memory/arena.hpp"

namespace training {

/// Seconds, bytes and memory are this rank's; loss, norm, tokens and FLOPs are those of all ranks.
struct StepRecord {
  std::uint64_t step = 0;  ///< steps done: 1 after the first
  double loss = std::numeric_limits<double>::quiet_NaN();
  double grad_norm = std::numeric_limits<double>::quiet_NaN();
  double learning_rate = 0, loss_scale = 1;
  std::uint64_t tokens = 0;  ///< rows that count in the loss
  double seconds = 0;        ///< of the whole step
  /// Parts of the step. They leave out what the training thread waited for communication, which is
  /// `exposed`: so the four add up to the step, but for what has no name.
  double forward = 0, backward = 0, optimizer = 0, exposed = 0;
  double communication = 0;  ///< of each operation from its issue to its end, in all
  /// This rank's work, without waits, before the step's first collective ended (straggler.hpp).
  double own_compute = 0;
  std::uint64_t bytes_sent = 0;
  std::array<std::size_t, kUses> memory{}, peak{};  ///< bytes by Use
  std::size_t peak_of_all = 0;  ///< less than the sum of `peak` where the peaks were not together
  double flops = 0;             ///< of the model, by its formula: recomputation does not count
  std::optional<double> validation_loss, validation_accuracy;  ///< where the step measured them
  std::string note;  ///< "checkpoint written", "step skipped for overflow" …

  [[nodiscard]] double tokens_per_second() const { return rate(static_cast<double>(tokens)); }
  [[nodiscard]] double exposed_share() const { return rate(exposed); }
  /// Model FLOPs utilization (Chowdhery et al. 2022, arXiv 2204.02311, appendix B): achieved FLOP/s
  /// over the peak of all ranks. NaN if the peak is not known.
  [[nodiscard]] double mfu(double peak_flops) const {
    return peak_flops > 0 ? rate(flops) / peak_flops : std::numeric_limits<double>::quiet_NaN();
  }
  /// Time of the step that none of its parts names.
  [[nodiscard]] double other() const {
    const double rest = seconds - forward - backward - optimizer - exposed;
    return rest > 0 ? rest : 0;
  }

 private:
  [[nodiscard]] double rate(double amount) const { return seconds > 0 ? amount / seconds : 0; }
};

/// What is the same for all steps of a run.
struct RunFacts {
  std::string name;
  /// What to know of the run, as it is shown: ("model", "GPT, 4 layers …"), ("layout", "ZeRO 2") …
  std::vector<std::pair<std::string, std::string>> facts{};
  std::size_t rank = 0, ranks = 1;
  std::uint64_t total_steps = 0;
  double peak_flops = 0;  ///< FLOP/s of all ranks' peak_flops(), added up; 0: not known
};

}  // namespace training
