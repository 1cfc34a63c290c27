// SPDX-License-Identifier: Apache-2.0
// Coll-tune, which measures this machine's tuning table, shows it, or shows what the planner's
// choices cost without it.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/knobs.hpp"
#include "coll_perf/coll_perf_table.hpp"
#include "coll_run/coll_run_ranks.hpp"
#include "coll_tune/coll_tune_report.hpp"
#include "coll_tune/coll_tune_tuner.hpp"
#include "command_line.hpp"
#include "planner/tuning_file.hpp"
#include "sys/folder.hpp"
#include "topology/read/discover.hpp"
#include "topology/topology_hash.hpp"

namespace perf {
namespace {

constexpr int kFailed = 2;

struct TuneOptions {
  std::vector<int> ranks{2};
  std::string operations = "all", sizes = "8,32,128,512,2K,8K,32K,128K,512K,2M,8M,32M,64M";
  std::string transports, table, svg;
  double seconds = 90;
  bool pin = false, print = false, regret = false, json = false;
};

/// What is to be measured, or what of it makes no sense.
coll::Result<Tuning> understand(const TuneOptions& options) {
  Tuning tuning;
  tuning.seconds = options.seconds;
  for (const std::string& word : words(options.operations)) {
    if (word == "all") {
      tuning.operations = all_operations();
      continue;
    }
    const auto operation = parse_operation(word);
    if (!operation)
      return failed(coll::Code::invalid_argument, fmt::format("'{}' is no operation", word));
    tuning.operations.push_back(*operation);
  }
  // An exchange has one algorithm; unequal blocks have those of equal ones.
  std::erase_if(tuning.operations, [](Operation each) {
    return traits(each).api == COLL_SEND || equal_blocks(each) != each;
  });
  for (const std::string& word : words(options.sizes)) {
    const auto size = parse_size(word);
    if (!size || *size == 0)
      return failed(coll::Code::invalid_argument, fmt::format("'{}' is no size", word));
    tuning.sizes.push_back(*size);
  }
  std::sort(tuning.sizes.begin(), tuning.sizes.end());
  if (tuning.operations.empty() || tuning.sizes.empty())
    return failed(coll::Code::invalid_argument, "no operation or no size is left to measure");
  return tuning;
}

std::string this_topology() {
  return fmt::format("{:016x}", coll::topology_hash(coll::discover()));
}

std::string default_table(const std::string& topology) {
  const std::string folder = coll::cache_folder();
  return folder.empty() ? std::string() : coll::tuning_path(folder, topology);
}

std::string time_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

int fail(const std::string& why) {
  fmt::print(stderr, "coll-tune: {}\n", why);
  return kFailed;
}

int print_table(const TuneOptions& options) {
  const std::string path = options.table.empty() ? default_table(this_topology()) : options.table;
  if (path.empty()) return fail("neither HOME nor XDG_CACHE_HOME says where tables are; --table");
  const coll::Result<coll::TuningTable> table = coll::read_tuning_file(path);
  if (!table.ok()) return fail(table.status().text());
  fmt::print("{}", options.json ? to_json(*table) : "# " + path + "\n" + to_text(*table));
  return 0;
}

/// Where the table goes, or why it cannot: known before anybody waits for measurements.
coll::Result<std::string> place_of_table(const TuneOptions& options, const std::string& topology) {
  const std::string path = options.table.empty() ? default_table(topology) : options.table;
  if (path.empty())
    return failed(coll::Code::invalid_argument, "neither HOME nor XDG_CACHE_HOME is set",
                  "say where to write with --table");
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const bool is_there = std::filesystem::is_directory(folder, error);
  if (!is_there || access(folder.c_str(), W_OK | X_OK) != 0)
    return coll::system_failure("writing into " + folder.string(), is_there ? errno : ENOTDIR,
                                "name another file with --table");
  return path;
}

/// Says on standard error where the table is.
int write_table(const TuneOptions& options, Tuner& tuner, const std::string& topology,
                const std::string& path) {
  const coll::TuningTable table = tuner.make_table(topology, path, time_now());
  if (!tuner.leader()) return 0;
  if (const coll::Status written = coll::write_tuning_file(path, table); !written.ok())
    return fail(written.text());
  fmt::print(stderr, "coll-tune: {} points for {} written to {}\n", tuner.points(),
             tuner.scope().text(), path);
  if (options.json) fmt::print("{}", to_json(table));
  return 0;
}

int show_regret(const TuneOptions& options, const std::vector<Race>& races,
                const coll::TuningScope& scope, const std::string& table) {
  fmt::print("{}", options.json ? regret_json(races, scope, table)
                                : regret_text(races, scope.text(), table));
  if (options.svg.empty()) return 0;
  std::ofstream file(options.svg);
  file << regret_svg(races, scope.text());
  file.close();
  return file ? 0 : fail(options.svg + " cannot be written");
}

/// One rank's part.
int measure(const TuneOptions& options, const Tuning& tuning) {
  Options with;
  with.order = COLL_ORDER_ANY;  // tables say nothing of another one
  with.program = "coll-tune";
  with.transports = options.transports;
  const Session session(with);
  if (session.size() < 2) return fail("one rank has nothing to choose; start two or more");
  Tuner tuner(session, with, tuning);
  if (options.regret) {
    const std::vector<Race> races = tuner.races();
    return tuner.leader() ? show_regret(options, races, tuner.scope(), tuner.world().tuning_file)
                          : 0;
  }
  const std::string topology = tuner.leader() ? this_topology() : std::string();
  const coll::Result<std::string> path =
      tuner.leader() ? place_of_table(options, topology) : std::string();
  if (session.sum(path.ok() ? 0 : 1) != 0)
    return tuner.leader() ? fail(path.status().text()) : kFailed;
  return write_table(options, tuner, topology, *path);
}

int run(const TuneOptions& options, int argc, char** argv) {
  if (options.print) return print_table(options);
  const coll::Result<Tuning> tuning = understand(options);
  if (!tuning.ok()) return fail(tuning.status().text() + "; coll-tune --help says more");
  if (launched_rank() >= 0) return measure(options, *tuning);
  for (const int ranks : options.ranks) {
    RunOptions start;
    start.ranks = ranks;
    start.pin = options.pin;
    start.command = {"/proc/self/exe"};
    start.command.insert(start.command.end(), argv + 1, argv + argc);
    if (const int code = run_ranks(start); code != 0) return code;
  }
  return 0;
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  perf::TuneOptions options;
  CLI::App app{
      "Measures which algorithms, and which cuts of their calls, are fastest on this machine and\n"
      "writes what it found where the library looks for it; COLL_TUNING names another table or\n"
      "switches tables off. Alone it starts local ranks; under coll-run, torchrun, mpirun or srun "
      "it\n"
      "measures those ranks.",
      "coll-tune"};
  app.footer(
      "Example: coll-tune -n 2,4,8 --seconds 60\n"
      "         coll-tune --print\n"
      "         mpirun -n 16 coll-tune --regret\n");
  app.add_option("-n,--ranks", options.ranks,
                 "Local ranks to start, without a launcher; a comma list: one after another")
      ->delimiter(',')
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time to measure for, about, per number of ranks")
      ->check(perf::seconds_from(0.1, 1e6))
      ->type_name("S")
      ->capture_default_str();
  app.add_option("-t,--operations", options.operations, "A comma list, as coll-perf has them")
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "A comma list of sizes")->capture_default_str();
  app.add_option("--transports", options.transports,
                 "Only these, best first: cuda_ipc,shm,verbs,tcp");
  app.add_option("--table", options.table,
                 "Another file than the one that the library finds by itself");
  app.add_flag("--pin", options.pin, "Bind each rank that is started to its share of the cores");
  app.add_flag("--regret", options.regret,
               "Write no table; show what the planner's choices cost against the fastest");
  app.add_flag("--print", options.print, "Measure nothing; show the table");
  app.add_flag("--json", options.json, "Show table or regret as JSON, on standard output");
  app.add_option("--plot", options.svg, "With --regret: draw it over size as SVG to a file");
  if (const auto code = perf::parse_command_line(app, argc, argv)) return *code;
  // Before anything reads the knobs. To measure a table takes none.
  if (!options.regret) setenv("COLL_TUNING", "none", 1);
  if (options.regret && !options.table.empty()) setenv("COLL_TUNING", options.table.c_str(), 1);
  return perf::run(options, argc, argv);
}
