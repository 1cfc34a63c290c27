// SPDX-License-Identifier: Apache-2.0
// How coll-tune measures algorithms and cuts in turns.
#include "coll_tune/coll_tune_measure.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "coll_perf/coll_perf_call.hpp"
#include "coll_perf/coll_perf_compute.hpp"
#include "planner/tuning_file.hpp"

namespace perf {
namespace {

/// Each heat makes its communicators anew.
constexpr int kHeats = 3;
/// Rounds of each heat; two where even the fewest take too long.
constexpr int kFewestRounds = 5, kMostRounds = 9;
/// The time of a batch that takes longer is no matter of luck.
constexpr double kLongBatch_s = 5e-3;
/// The shortest batch: the clock and the barrier before it must not show.
constexpr double kShortestBatch_s = 1e-3;
constexpr long kMostCalls = 100'000;
/// An algorithm that is this many times as slow as the fastest at the first try gets no rounds.
constexpr double kNotWorthARound = 8;
/// The part of the time that algorithms get; the rest is for cuts of the fastest.
constexpr double kForAlgorithms = 2. / 3;

/// A contender ready to run.
struct Runner {
  Contender* contender;
  std::unique_ptr<Call> call;
  long calls = 1;     ///< in a batch
  double call_s = 0;  ///< the least that one took so far
};

class Track {
 public:
  Track(const Session& session, Race& race, std::vector<Runner>& runners)
      : session_(session), race_(race), runners_(runners) {}

  void run(double seconds) {
    for (Runner& runner : runners_) calibrate(runner);
    start_s_ = now();
    double least = runners_.front().call_s;
    for (const Runner& runner : runners_) least = std::min(least, runner.call_s);
    int active = 0;
    for (Runner& runner : runners_) {
      Contender& contender = *runner.contender;
      contender.out = !contender.kept && runner.call_s > kNotWorthARound * least;
      if (contender.out) contender.rounds.push_back(runner.call_s * 1e6);
      active += contender.out ? 0 : 1;
    }
    const double batch_s = std::max(kShortestBatch_s, seconds / (kMostRounds * active));
    for (Runner& runner : runners_) {
      runner.calls = std::clamp(static_cast<long>(batch_s / runner.call_s), 1L, kMostCalls);
    }
    for (int done = 1; done <= kMostRounds; ++done) {
      const double elapsed = round(done);
      if (done < (elapsed > 2 * seconds ? 2 : kFewestRounds)) continue;
      drop_hopeless(race_);
      if (elapsed > seconds || is_decided(race_)) break;
    }
  }

 private:
  /// Seconds of a call, this rank's, in a batch from behind a barrier.
  double batch(const Runner& runner) const {
    session_.barrier();
    const double start = now();
    for (long i = 0; i < runner.calls; ++i) {
      if (const coll_status_t status = (*runner.call)(); status != COLL_SUCCESS)
        session_.require(status, runner.call->name().c_str());
    }
    return (now() - start) / static_cast<double>(runner.calls);
  }

  /// Finds out how many calls make a batch. The first one, which also connects, plans and touches
  /// memory, says nothing of that: on 8 ranks it took 30 times as long as the second.
  void calibrate(Runner& runner) const {
    batch(runner);
    for (int good = 0; good < 3;) {
      std::vector<double> took{batch(runner)};
      session_.combine(took, Average::slowest);
      const double batch_s = took[0] * static_cast<double>(runner.calls);
      if (batch_s >= kShortestBatch_s || runner.calls == kMostCalls) {
        runner.call_s = good == 0 ? took[0] : std::min(runner.call_s, took[0]);
        ++good;
        if (batch_s > kLongBatch_s) break;
      } else {
        const double wanted = 1.5 * kShortestBatch_s / std::max(took[0], 1e-8);
        runner.calls = std::min(kMostCalls, std::max(2 * runner.calls, static_cast<long>(wanted)));
      }
    }
  }

  /// A batch of each, begun by another one each time. The time since the start, of the slowest
  /// rank.
  double round(int number) {
    std::vector<double> took(runners_.size() + 1);
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      const std::size_t at = (i + static_cast<std::size_t>(number)) % runners_.size();
      if (!runners_[at].contender->out) took[at] = batch(runners_[at]);
    }
    took.back() = now() - start_s_;
    session_.combine(took, Average::slowest);
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      Contender& contender = *runners_[i].contender;
      if (!contender.out) contender.rounds.push_back(took[i] * 1e6);
    }
    return took.back();
  }

  const Session& session_;
  Race& race_;
  std::vector<Runner>& runners_;
  double start_s_ = 0;
};

std::size_t longest(const Tuning& tuning) {
  return *std::max_element(tuning.sizes.begin(), tuning.sizes.end());
}

/// The sum is of floats, the root rank 0.
Runner runner_of(Contender& contender, Operation operation, std::uint64_t bytes,
                 const Session& session, Buffers& buffers) {
  const Point point{operation, COLL_FLOAT32, COLL_SUM, 0,
                    shape_of(operation, bytes, session.size(), sizeof(float))};
  return {&contender, std::make_unique<Call>(session, point, false, buffers, session.stream())};
}

/// A communicator for each recipe that is forced, made when first asked for.
class Forced {
 public:
  explicit Forced(const Options& options) : options_(options) {}
  const Session& of(const coll::Recipe& recipe) {
    std::unique_ptr<Session>& own = sessions_[recipe.text()];
    if (!own) {
      Options with = options_;
      with.algorithm = recipe.text();
      own = std::make_unique<Session>(with);
    }
    return *own;
  }

 private:
  const Options& options_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;
};

/// The races of one operation.
struct Event {
  Operation operation;
  std::vector<Race> races;
};

/// Runs races, all of them in each heat.
class Course {
 public:
  Course(const Session& session, const Options& options, const Tuning& tuning, Progress progress)
      : session_(session),
        options_(options),
        progress_(std::move(progress)),
        buffers_(longest(tuning), options.memory) {}

  /// `seconds` for all of them, about.
  void run(std::vector<Event>& events, double seconds) {
    const double start = now();
    std::size_t left = 0;
    for (const Event& event : events) left += kHeats * event.races.size();
    for (int heat = 0; heat < kHeats; ++heat) {
      for (Event& event : events) {
        Forced forced(options_);
        for (Race& race : event.races) {
          std::vector<double> spent{now() - start};
          session_.combine(spent, Average::slowest);
          const double rest = std::max(0.0, seconds - spent[0]);
          run(event.operation, race, forced, heat, rest / static_cast<double>(left--));
        }
      }
    }
  }

 private:
  void run(Operation operation, Race& race, Forced& forced, int heat, double seconds) {
    progress_(operation, race.bytes);
    std::vector<Runner> runners;
    for (Contender& contender : race.contenders) {
      if (!contender.out)
        runners.push_back(
            runner_of(contender, operation, race.bytes, forced.of(contender.recipe), buffers_));
    }
    if (heat == 0) runners.front().call->prepare(0);
    Track(session_, race, runners).run(seconds);
  }

  const Session& session_;
  const Options& options_;
  Progress progress_;
  Buffers buffers_;
};

/// Each size that the operation can have, once.
std::vector<std::size_t> sizes_of(Operation operation, const Tuning& tuning, int ranks) {
  std::vector<std::size_t> sizes;
  for (const std::size_t bytes : tuning.sizes) {
    const std::size_t whole = shape_of(operation, bytes, ranks, sizeof(float)).bytes;
    if (whole == 0 && operation != Operation::barrier) continue;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
  }
  return sizes;
}

/// A communicator that plans with this table.
Session session_with(const coll::TuningTable& table, const Options& options) {
  coll::try_tuning({table, "what is tried"});
  return Session(options);
}

coll::Collective collective_of(Operation operation) {
  return static_cast<coll::Collective>(traits(operation).api);
}

/// A heat of one duel.
void fight(Duel& duel, Operation operation, const Session& before, const Session& after,
           Buffers& buffers, double seconds) {
  Race race;
  race.contenders = {{duel.before, {}, 0, true, false, {}}, {duel.after, {}, 0, true, false, {}}};
  Contender &old = race.contenders[0], &young = race.contenders[1];
  std::vector<Runner> runners;
  runners.push_back(runner_of(old, operation, duel.bytes, before, buffers));
  runners.push_back(runner_of(young, operation, duel.bytes, after, buffers));
  if (duel.ratios.empty()) runners.front().call->prepare(0);
  Track(before, race, runners).run(seconds);
  std::vector<double>& ratios = duel.ratios.emplace_back();
  for (std::size_t i = 0; i < old.rounds.size(); ++i) {
    ratios.push_back(young.rounds[i] / old.rounds[i]);
    duel.before_us.push_back(old.rounds[i]);
  }
}

}  // namespace

std::vector<Duel> measure_duels(const Options& options, const Tuning& tuning,
                                const coll::TuningTable& before, const coll::TuningTable& after,
                                double seconds, const Progress& progress) {
  Buffers buffers(longest(tuning), options.memory);
  std::vector<std::pair<Operation, Duel>> duels;
  const double start = now();
  for (int heat = 0; heat < kHeats; ++heat) {
    const Session old = session_with(before, options), young = session_with(after, options);
    for (const Operation operation : tuning.operations) {
      if (heat > 0) break;
      for (const std::size_t bytes : sizes_of(operation, tuning, old.size())) {
        std::optional<Duel> duel = line_up_duel(world_of(old.comm()), world_of(young.comm()),
                                                collective_of(operation), bytes);
        if (duel) duels.emplace_back(operation, *std::move(duel));
      }
    }
    for (std::size_t i = 0; i < duels.size(); ++i) {
      auto& [operation, duel] = duels[i];
      progress(operation, duel.bytes);
      std::vector<double> spent{now() - start};
      old.combine(spent, Average::slowest);
      const std::size_t left = (kHeats - static_cast<std::size_t>(heat)) * duels.size() - i;
      fight(duel, operation, old, young, buffers,
            std::max(0.0, seconds - spent[0]) / static_cast<double>(left));
    }
  }
  std::vector<Duel> fought;
  for (auto& [operation, duel] : duels) fought.push_back(std::move(duel));
  return fought;
}

std::vector<Race> measure_races(const Session& session, const Options& options,
                                const Tuning& tuning, double seconds, const Progress& progress) {
  const coll::World& world = world_of(session.comm());
  std::vector<Event> algorithms, cuts;
  for (const Operation operation : tuning.operations) {
    Event& event = algorithms.emplace_back(Event{operation, {}});
    for (const std::size_t bytes : sizes_of(operation, tuning, session.size()))
      event.races.push_back(line_up(world, collective_of(operation), bytes));
  }
  Course course(session, options, tuning, progress);
  course.run(algorithms, kForAlgorithms * seconds);
  for (const Event& event : algorithms) {
    for (const Race& race : event.races) {
      // Two sizes share few cuts, so each size has communicators of its own.
      Race of_cuts = line_up_cuts(world, race);
      if (!of_cuts.contenders.empty()) cuts.push_back({event.operation, {std::move(of_cuts)}});
    }
  }
  course.run(cuts, (1 - kForAlgorithms) * seconds);
  std::vector<Race> all;
  for (Event& event : algorithms)
    std::move(event.races.begin(), event.races.end(), std::back_inserter(all));
  for (const Event& event : cuts) {
    const Race& shown = event.races.front();
    join(*std::find_if(all.begin(), all.end(),
                       [&](const Race& race) {
                         return race.collective == shown.collective && race.bytes == shown.bytes;
                       }),
         shown);
  }
  return all;
}

}  // namespace perf
