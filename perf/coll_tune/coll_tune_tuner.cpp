// SPDX-License-Identifier: Apache-2.0
// The steps from times to a table that loses to nothing.
#include "coll_tune/coll_tune_tuner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "coll_perf/coll_perf_table.hpp"
#include "coll_tune/coll_tune_fit.hpp"
#include "planner/tuning_file.hpp"
#include "sys/machine/machine_signature.hpp"

namespace perf {
namespace {

/// Parts of the time that races of the table's choices get, and of its model.
constexpr double kForPoints = 0.15, kForModel = 0.05;

/// Fits the model to all times that the table has of worlds like this one, and puts it into the
/// table if it predicts better than the default model. An old one that has become worse than that
/// goes.
void fit_table(const coll::World& world, const std::string& date, coll::TuningTable& table) {
  const std::vector<TimedPlan> times = timed_plans(table, world);
  if (table.model && is_outdated(*table.model, times)) {
    fmt::print(stderr,
               "coll-tune: the old fitted model goes: it predicts these times worse than the "
               "default model\n");
    table.model.reset();
  }
  const coll::CostModel from = table.model.value_or(*coll::default_cost_model());
  fmt::print(stderr, "coll-tune: fitting the cost model to {} times, at most {:.0f} s\n",
             times.size(), kMostFitSeconds);
  const ModelFit made = fit(on_this_machine(from.constants, world), times);
  fmt::print(stderr,
             "coll-tune: of every other size predictions are off by {:.2f} in the "
             "median, {:.0f} % within 25 %; with a model fitted to the rest {:.2f}, {:.0f} %{}\n",
             made.before.error, 100 * made.before.within, made.after.error, 100 * made.after.within,
             made.better() ? "" : ": not written, it is no better");
  if (made.out_of_time)
    fmt::print(stderr,
               "coll-tune: the fit ran out of time ({:.0f} s); a longer one may be better\n",
               kMostFitSeconds);
  if (made.better()) table.model = fitted_model(made, from, world, table.machine, date);
}

/// What was measured, for itself.
coll::TuningTable table_of(const std::vector<Race>& races, const coll::TuningScope& scope,
                           const std::string& topology, const std::string& date) {
  coll::TuningTable table;
  table.topology = topology;
  table.machine = coll::machine_signature();
  const int version = coll_version();
  table.library = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  for (const Race& race : races) table.points.push_back(to_point(race, scope, date));
  return table;
}

/// Adds the table to the one that lies there.
void add_to_old(const std::string& path, coll::TuningTable& table) {
  if (access(path.c_str(), F_OK) != 0) return;
  coll::Result<coll::TuningTable> old = coll::read_tuning_file(path);
  if (!old.ok()) {
    fmt::print(stderr, "coll-tune: the old table goes: {}\n", old.status().text());
  } else if (old->machine != table.machine) {
    fmt::print(stderr, "coll-tune: the old table goes: it was measured on {}\n", old->machine);
  } else {
    old->library = table.library;
    old->topology = table.topology;
    old->merge(table);
    table = *std::move(old);
  }
}

}  // namespace

Tuner::Tuner(const Session& session, const Options& options, const Tuning& tuning)
    : session_(session),
      options_(options),
      tuning_(tuning),
      world_(world_of(session.comm())),
      scope_(coll::scope_of(world_.layout, world_.shared_memory, world_.view.ranks_per_core)),
      leader_(session.rank() == 0),
      person_(leader_ && isatty(STDERR_FILENO) == 1) {}

std::vector<Race> Tuner::races() {
  return races(1);
}

coll::TuningTable Tuner::make_table(const std::string& topology, const std::string& old,
                                    const std::string& date) {
  coll::TuningTable table = table_of(races(1 - kForPoints - kForModel), scope_, topology, date);
  points_ = table.points.size();
  share(table);
  judge_points(table);
  if (leader_) {
    add_to_old(old, table);
    fit_table(world_, date, table);
  }
  share(table);
  if (table.model) judge_model(table);
  return table;
}

std::vector<Race> Tuner::races(double part) {
  if (leader_)
    fmt::print(stderr, "coll-tune: {}, about {:.0f} s{}\n", scope_.text(), tuning_.seconds,
               part < 1 ? fmt::format(", then at most {:.0f} s for a fit", kMostFitSeconds) : "");
  std::vector<Race> races =
      measure_races(session_, options_, tuning_, part * tuning_.seconds, shown_to_person());
  clear_line();
  return races;
}

std::vector<Duel> Tuner::duels(const coll::TuningTable& before, const coll::TuningTable& after,
                               double part) {
  std::vector<Duel> duels =
      measure_duels(options_, tuning_, before, after, part * tuning_.seconds, shown_to_person());
  clear_line();
  return duels;
}

/// Races what the table would change once more, and takes back what is not faster again. All
/// ranks do the same: they have the same times.
void Tuner::judge_points(coll::TuningTable& table) {
  const std::vector<Duel> all = duels({}, table, kForPoints);
  std::size_t won = 0;
  for (const Duel& duel : all) {
    if (duel.won()) {
      ++won;
      continue;
    }
    const auto point = std::ranges::find_if(table.points, [&](const coll::TuningPoint& each) {
      return each.collective == duel.collective && each.bytes == duel.bytes;
    });
    COLL_CHECK(point != table.points.end(), "what was raced again was measured before");
    take_back(duel, *point);
  }
  if (leader_)
    fmt::print(stderr,
               "coll-tune: {} of {} choices differ from the model's and were raced again: {} were "
               "faster again and stay\n",
               all.size(), table.points.size(), won);
}

/// Races what the table's model changes, and drops it if calls got slower.
void Tuner::judge_model(coll::TuningTable& table) {
  coll::TuningTable without = table;
  without.model.reset();
  const std::vector<Duel> all = duels(without, table, kForModel);
  if (is_gain(all)) return;
  table.model.reset();
  if (leader_)
    fmt::print(stderr, "coll-tune: the fitted model goes: it makes calls slower ({} changed)\n",
               all.size());
}

/// Makes the table what rank 0's is.
void Tuner::share(coll::TuningTable& table) const {
  std::string text = leader_ ? to_json(table) : std::string();
  text.resize(session_.sum(text.size()));
  session_.require(coll_broadcast(text.data(), text.data(), text.size(), COLL_UINT8, 0,
                                  session_.comm(), nullptr),
                   "telling the table");
  // Rank 0 reads it, too: what is left out in reading is left out on all ranks.
  coll::Result<coll::TuningTable> told = coll::read_tuning_json(text, "rank 0's table");
  COLL_CHECK(told.ok(), "what was written can be read");
  table = *std::move(told);
}

Progress Tuner::shown_to_person() const {
  return [this](Operation operation, std::size_t bytes) {
    if (person_)
      fmt::print(stderr, "\r\033[K# {} {}… ", traits(operation).name,
                 bytes_text(static_cast<double>(bytes)));
  };
}

void Tuner::clear_line() const {
  if (person_) fmt::print(stderr, "\r\033[K");
}

}  // namespace perf
