// SPDX-License-Identifier: Apache-2.0
// Coll-run, which starts local ranks for tests and demos.
#include "coll_run/coll_run_ranks.hpp"
#include "command_line.hpp"

int main(int argc, char** argv) {
  perf::RunOptions options;
  CLI::App app{
      "Starts N processes on this host as the ranks of one job, by torchrun's variables (RANK,\n"
      "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT). When a rank fails,\n"
      "coll-run says which and how, gives the others a grace period to fail by themselves, kills\n"
      "them, and exits with the first failure's code (128 + N for signal N). Nothing that the "
      "ranks\n"
      "started outlives a job that failed, or a coll-run that was killed. For tests and demos;\n"
      "torchrun, mpirun and srun are for real jobs.",
      "coll-run"};
  app.footer(
      "Example: coll-run -n 4 -- ./hello --verbose\n"
      "Exit codes: 0, the first failing rank's, 124 after --timeout, 127 if PROGRAM does not "
      "start,\n2 for bad options.\n");
  app.add_option("-n,--ranks", options.ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(1, 4096));
  app.add_option("--rendezvous", options.rendezvous,
                 "How the ranks meet: tcp (a free port of 127.0.0.1) or file (a temporary one)")
      ->check(CLI::IsMember({"tcp", "file"}))
      ->capture_default_str();
  app.add_flag("--pin", options.pin, "Bind each rank to its share of the cores");
  app.add_flag("--label", options.label,
               "Put the rank before each line of output, and keep lines whole");
  app.add_option("--timeout", options.timeout_s, "End the ranks after so many seconds; 0: never")
      ->check(perf::seconds_from(0))
      ->type_name("S");
  app.add_option("--grace", options.grace_s,
                 "How long the others may go on once a rank has failed or a signal came")
      ->check(perf::seconds_from(0))
      ->type_name("S")
      ->capture_default_str();
  app.add_option("command", options.command, "The program and its arguments, after --")
      ->type_name("PROGRAM ARGS...");
  app.positionals_at_end();
  if (const auto code = perf::parse_command_line(app, argc, argv)) return *code;
  if (options.command.empty()) {
    fmt::print(stderr, "coll-run: no program to start; say coll-run -n {} -- ./prog\n",
               options.ranks);
    return perf::kBadUsage;
  }
  return perf::run_ranks(options);
}
