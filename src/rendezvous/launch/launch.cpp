// SPDX-License-Identifier: Apache-2.0
// The launchers' sets of variables, compared.
#include "rendezvous/launch/launch.hpp"

#include <charconv>
#include <optional>

#include "base/log.hpp"
#include "rendezvous/launch/launch_place.hpp"

namespace coll {
namespace {

struct VariableSet {
  Launcher launcher;
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
};

// In the order of preference.
constexpr VariableSet kSets[] = {
    {Launcher::coll, "COLL_*", "COLL_RANK", "COLL_SIZE", "LOCAL_RANK"},
    {Launcher::torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {Launcher::open_mpi, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {Launcher::mpich, "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {Launcher::slurm, "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

const char* text_of(const GetVariable& get, const char* name) {
  const char* text = get(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

Result<Rank> read_number(const char* name, const char* text) {
  Rank number = 0;
  const char* const end = text + std::string_view(text).size();
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < 0) {
    return failed(Code::invalid_argument,
                  std::string(name) + "=" + text + " is not a number of ranks",
                  "it must be a whole number, 0 or more");
  }
  return number;
}

struct Who {
  const VariableSet* set;
  Rank rank;
  Rank size;
  [[nodiscard]] std::string text() const {
    return std::string(set->name) + " (" + set->rank + "=" + std::to_string(rank) + ", " +
           set->size + "=" + std::to_string(size) + ")";
  }
};

/// Nothing if the set is not there.
Result<std::optional<Who>> read_set(const VariableSet& set, const GetVariable& get) {
  const char* const rank = text_of(get, set.rank);
  const char* const size = text_of(get, set.size);
  // An allocation's shell knows a number of tasks, and a batch script calls itself number 0; but
  // only srun starts tasks, and only its tasks have a step.
  if (set.launcher == Launcher::slurm &&
      (rank == nullptr || text_of(get, "SLURM_STEP_ID") == nullptr)) {
    return std::optional<Who>();
  }
  if (rank == nullptr && size == nullptr) return std::optional<Who>();
  if (rank == nullptr || size == nullptr) {
    const char* const there = rank != nullptr ? set.rank : set.size;
    const char* const missing = rank != nullptr ? set.size : set.rank;
    return failed(Code::invalid_usage,
                  std::string("the variables of ") + set.name + " are incomplete: " + there +
                      " is set, " + missing + " is not",
                  "set both or none of them");
  }
  Who who{&set, 0, 0};
  COLL_ASSIGN(who.rank, read_number(set.rank, rank));
  COLL_ASSIGN(who.size, read_number(set.size, size));
  if (who.size < 1 || who.rank >= who.size) {
    return failed(Code::invalid_argument, who.text() + " makes no sense",
                  "ranks are 0 to size - 1");
  }
  return std::optional(who);
}

/// srun's own PMI sets PMI_RANK too, but speaks another protocol than MPICH's launcher.
bool is_sruns_pmi(const GetVariable& get) {
  return text_of(get, "SLURM_PROCID") != nullptr && text_of(get, "MPI_LOCALRANKID") == nullptr;
}

Result<Who> find_who(const GetVariable& get) {
  std::optional<Who> chosen;
  for (const VariableSet& set : kSets) {
    if (chosen && chosen->set->launcher == Launcher::coll) break;
    if (set.launcher == Launcher::mpich && is_sruns_pmi(get)) continue;
    if (set.launcher == Launcher::slurm && chosen) continue;
    COLL_ASSIGN(const std::optional<Who> found, read_set(set, get));
    if (!found) continue;
    if (!chosen) {
      chosen = found;
    } else if (found->rank != chosen->rank || found->size != chosen->size) {
      return failed(Code::invalid_usage,
                    "two launchers disagree on who this process is: " + chosen->text() + " and " +
                        found->text(),
                    "unset the variables of one, or set COLL_RANK and COLL_SIZE");
    }
  }
  if (chosen) return *chosen;
  std::string looked;
  for (const VariableSet& set : kSets) {
    looked += std::string(looked.empty() ? "" : "; ") + set.rank + ", " + set.size + " (" +
              set.name + ")";
  }
  return failed(Code::invalid_usage,
                "no launcher says which rank this process is; looked for " + looked,
                "start with coll-run, torchrun, mpirun or srun, or set COLL_RANK, COLL_SIZE and "
                "COLL_RENDEZVOUS");
}

}  // namespace

Result<Launch> read_launch(const GetVariable& get) {
  COLL_ASSIGN(const Who who, find_who(get));
  Launch launch;
  launch.rank = who.rank;
  launch.size = who.size;
  launch.launcher = who.set->name;
  if (const char* const local = text_of(get, who.set->local_rank)) {
    if (const Result<Rank> number = read_number(who.set->local_rank, local); number.ok()) {
      launch.local_rank = *number;
    }
  }
  COLL_ASSIGN(launch.place, launch_place(who.set->launcher, who.size, get));
  if (log_enabled(LogLevel::info)) {
    log(LogLevel::info, "rank " + std::to_string(launch.rank) + " of " +
                            std::to_string(launch.size) + " by " + who.text() + "; meeting by " +
                            launch.place.source);
  }
  return launch;
}

}  // namespace coll
