// SPDX-License-Identifier: Apache-2.0
// The verifier against runs on real numbers, over damaged schedules.
#include "mutation.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "reference_run.hpp"
#include "schedule/print.hpp"
#include "schedule/proof/verify.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

/// The first run of `runs` that goes wrong, or one that did not. Credits vary from 1.
ReferenceOutcome run_often(const samples::Set& set, int runs, std::mt19937_64& random) {
  for (int i = 0; i < runs; ++i) {
    const auto outcome = reference_run(set, static_cast<std::uint32_t>(1 + i % 3), random);
    if (!outcome.right()) return outcome;
  }
  return {};
}

std::string print(const samples::Set& set) {
  std::string text;
  for (const Schedule& schedule : set) text += print(schedule);
  return text;
}

struct Tally {
  int mutants = 0;
  int killed = 0;      ///< rejected, and wrong on numbers
  int equivalent = 0;  ///< accepted, and right on numbers
  int strict = 0;      ///< rejected, although no run on numbers went wrong
};

/// Verifier and numbers must agree on a mutant, save that the verifier may be stricter.
void judge(const std::string& name, const samples::Set& mutant, std::mt19937_64& random,
           Tally& tally) {
  ++tally.mutants;
  const auto verdict = verify(mutant);
  const auto outcome = run_often(mutant, verdict.ok() ? 40 : 60, random);
  if (!verdict.ok()) {
    ++(outcome.right() ? tally.strict : tally.killed);
    if (outcome.right() && std::getenv("COLL_TEST_SHOW_STRICT") != nullptr) {
      std::printf("%s: %s\n", name.c_str(), verdict.status().text().c_str());
    }
    return;
  }
  ++tally.equivalent;
  ASSERT_TRUE(outcome.right()) << name << " was accepted, but " << outcome.what << "\n"
                               << print(mutant);
}

void report(const std::string& name, const Tally& tally) {
  std::printf("%-16s %6d mutants: %6d killed, %5d equivalent, %4d rejected without harm shown\n",
              name.c_str(), tally.mutants, tally.killed, tally.equivalent, tally.strict);
}

TEST(Mutation, SamplesAreRightOnNumbers) {
  std::mt19937_64 random(test::test_seed());
  for (const auto& [name, set] : samples::all()) {
    const auto outcome = run_often(set, 60, random);
    EXPECT_TRUE(outcome.right()) << name << ": " << outcome.what;
  }
}

TEST(Mutation, VerifierRejectsEverySingleMutantThatIsWrongOnNumbers) {
  std::mt19937_64 random(test::test_seed());
  std::map<std::string, Tally> tallies;
  Tally all;
  for (const auto& [name, set] : samples::all()) {
    for (const Mutation& mutation : mutations_of(set)) {
      samples::Set mutant = set;
      mutation.apply(mutant);
      const std::string full_name =
          name + ", " + mutation.kind + " at rank " + std::to_string(mutation.rank) + " lane " +
          std::to_string(mutation.lane) + " step " + std::to_string(mutation.step);
      Tally& tally = tallies[mutation.kind];
      const Tally before = tally;
      judge(full_name, mutant, random, tally);
      if (HasFatalFailure()) return;
      all.mutants += 1;
      all.killed += tally.killed - before.killed;
      all.equivalent += tally.equivalent - before.equivalent;
      all.strict += tally.strict - before.strict;
    }
  }
  for (const auto& [kind, tally] : tallies) report(kind, tally);
  report("all", all);
  for (const auto& [kind, tally] : tallies) EXPECT_GT(tally.killed, 0) << kind;
}

/// Two changes at once can hide each other from a check of one of them.
TEST(Mutation, VerifierRejectsPairsOfMutationsThatAreWrongOnNumbers) {
  std::mt19937_64 random(test::test_seed());
  Tally tally;
  for (const auto& [name, set] : samples::all()) {
    const std::vector<Mutation> mutations = mutations_of(set);
    for (int i = 0; i < 150; ++i) {
      const Mutation& first = mutations[random() % mutations.size()];
      // Half of the pairs are the same damage to two steps: consistent damage looks best.
      const Mutation* second = &mutations[random() % mutations.size()];
      for (int tries = 0; i % 2 == 0 && second->kind != first.kind && tries < 100; ++tries) {
        second = &mutations[random() % mutations.size()];
      }
      samples::Set mutant = set;
      first.apply(mutant);
      second->apply(mutant);
      judge(name + ", " + first.kind + " and " + second->kind, mutant, random, tally);
      if (HasFatalFailure()) return;
    }
  }
  report("pairs", tally);
}

}  // namespace
}  // namespace coll
