// SPDX-License-Identifier: Apache-2.0
// Launchers' variables understood, and refused.
#include "rendezvous/launch/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rendezvous/launch/launch_place.hpp"
#include "rendezvous/stores/job_board.hpp"

namespace coll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

Result<Launch> read(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                         {"PMIX_NAMESPACE", "3221225473"}};
const Variables kMpich{
    {"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"PMI_FD", "7"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "node[007-012,20],login"}};

TEST(Launch, EachLauncherIsUnderstood) {
  const std::map<std::string, std::pair<Variables, MeetingPlace::Kind>> all{
      {"torchrun", {kTorchrun, MeetingPlace::Kind::tcp}},
      {"Open MPI", {kOpenMpi, MeetingPlace::Kind::file}},
      {"MPICH", {kMpich, MeetingPlace::Kind::pmi}},
      {"Slurm", {kSlurm, MeetingPlace::Kind::tcp}}};
  for (const auto& [name, expected] : all) {
    const Result<Launch> launch = read(expected.first);
    ASSERT_TRUE(launch.ok()) << name << ": " << launch.status().text();
    EXPECT_EQ(launch->launcher, name);
    EXPECT_EQ(launch->rank, 3) << name;
    EXPECT_EQ(launch->size, 8) << name;
    EXPECT_EQ(launch->local_rank, 1) << name;
    EXPECT_EQ(launch->place.kind, expected.second) << name;
    EXPECT_FALSE(launch->place.key.empty()) << name;
    EXPECT_FALSE(launch->place.source.empty()) << name;
  }
}

TEST(Launch, TorchrunsPortIsTheFirstOfSeveralThatAllRanksKnow) {
  const Result<Launch> launch = read(kTorchrun);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->place.addresses[0], "node1:29500");
  EXPECT_GT(launch->place.addresses.size(), 8U);
  EXPECT_EQ(std::set(launch->place.addresses.begin(), launch->place.addresses.end()).size(),
            launch->place.addresses.size());
  const Result<Launch> other = read(with(kTorchrun, {{"RANK", "0"}}));
  EXPECT_EQ(other->place.addresses, launch->place.addresses);
  EXPECT_EQ(other->place.key, launch->place.key);
  const Result<Launch> six = read(with(kTorchrun, {{"MASTER_ADDR", "fe80::1"}}));
  EXPECT_EQ(six->place.addresses[0], "[fe80::1]:29500");
}

// Whatever tells two jobs apart must be in the key; whatever may differ between ranks of one job
// must not.
TEST(Launch, TheKeyNamesJobAndSecret) {
  std::set<std::string> keys;
  for (const Variables& more :
       {Variables{}, Variables{{"MASTER_PORT", "29501"}}, Variables{{"TORCHELASTIC_RUN_ID", "x"}},
        Variables{{"TORCHELASTIC_RESTART_COUNT", "1"}}, Variables{{"COLL_SECRET", "s"}}}) {
    keys.insert(read(with(kTorchrun, more))->place.key);
  }
  EXPECT_EQ(keys.size(), 5U);
  EXPECT_EQ(read(with(kTorchrun, {{"MASTER_ADDR", "localhost"}}))->place.key,
            read(kTorchrun)->place.key)
      << "some operators call rank 0's own host so";
}

TEST(Launch, SetsThatDisagreeAreRefusedNamingBoth) {
  const Result<Launch> launch =
      read(with(kTorchrun, with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "2"}})));
  EXPECT_EQ(launch.status().code(), Code::invalid_usage);
  EXPECT_THAT(launch.status().text(), HasSubstr("torchrun (RANK=3, WORLD_SIZE=8)"));
  EXPECT_THAT(launch.status().text(),
              HasSubstr("Open MPI (OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=8)"));
  EXPECT_FALSE(read(with(kMpich, with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "9"}}))).ok());
  EXPECT_TRUE(read(with(kTorchrun, kOpenMpi)).ok()) << "they agree";
}

TEST(Launch, SlurmYieldsToWhatItStarted) {
  const Variables node{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}};
  for (const Variables& inner : {kTorchrun, kOpenMpi, kMpich}) {
    const Result<Launch> launch = read(with(with(kSlurm, inner), node));
    ASSERT_TRUE(launch.ok()) << launch.status().text();
    EXPECT_EQ(launch->rank, 3);
    EXPECT_EQ(launch->size, 8);
  }
}

TEST(Launch, OnlyWhatSrunStartsIsATaskOfSlurms) {
  const auto refusal = [](const Variables& variables) { return read(variables).status().text(); };
  EXPECT_THAT(refusal({{"SLURM_NTASKS", "8"}}), HasSubstr("no launcher says")) << "salloc's shell";
  Variables batch = with(kSlurm, {{"SLURM_PROCID", "0"}});
  batch.erase("SLURM_STEP_ID");
  EXPECT_THAT(refusal(batch), HasSubstr("no launcher says"));
  batch.erase("SLURM_NTASKS");
  EXPECT_THAT(refusal(batch), HasSubstr("no launcher says")) << "sbatch without -n";
  Variables torn = kSlurm;
  torn.erase("SLURM_NTASKS");
  EXPECT_THAT(refusal(torn), HasSubstr("SLURM_PROCID is set, SLURM_NTASKS is not"));
}

TEST(Launch, SrunsOwnPmiIsNotMpichs) {
  Variables pmi2 = with(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}, {"PMI_FD", "7"}});
  EXPECT_EQ(read(pmi2)->launcher, "Slurm");
}

TEST(Launch, IncompleteSetsAreRefusedNamingWhatIsMissing) {
  for (const auto& [there, missing] :
       std::map<std::string, std::string>{{"RANK", "WORLD_SIZE"},
                                          {"WORLD_SIZE", "RANK"},
                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"PMI_SIZE", "PMI_RANK"},
                                          {"COLL_RANK", "COLL_SIZE"},
                                          {"COLL_SIZE", "COLL_RANK"}}) {
    const Result<Launch> launch = read({{there, "1"}});
    EXPECT_EQ(launch.status().code(), Code::invalid_usage) << there;
    EXPECT_THAT(launch.status().text(), HasSubstr(there + " is set, " + missing + " is not"));
  }
  for (const char* missing : {"MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = kTorchrun;
    variables.erase(missing);
    const Result<Launch> launch = read(variables);
    EXPECT_EQ(launch.status().code(), Code::invalid_usage);
    EXPECT_THAT(launch.status().text(), HasSubstr(missing + std::string(" is not")));
  }
}

TEST(Launch, NumbersThatAreNoneAreRefused) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"RANK", "x"},
                                          {"RANK", ""},
                                          {"WORLD_SIZE", "8x"},
                                          {"RANK", "8"},
                                          {"RANK", "-1"},
                                          {"WORLD_SIZE", "0"},
                                          {"MASTER_PORT", "0"},
                                          {"MASTER_PORT", "70000"},
                                          {"MASTER_PORT", "http"},
                                          {"WORLD_SIZE", "99999999999"}}) {
    const Result<Launch> launch = read(with(kTorchrun, {{name, value}}));
    EXPECT_FALSE(launch.ok()) << name << "=" << value;
    EXPECT_THAT(launch.status().text(), HasSubstr(name));
  }
}

TEST(Launch, NothingSetListsWhatWasLookedFor) {
  const Result<Launch> launch = read({{"HOME", "/"}});
  for (const char* name : {"COLL_RANK", "RANK, WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                           "SLURM_PROCID", "coll-run"}) {
    EXPECT_THAT(launch.status().text(), HasSubstr(name));
  }
}

TEST(Launch, CollVariablesDecide) {
  const Variables mine{{"COLL_RANK", "1"}, {"COLL_SIZE", "2"}};
  const Result<Launch> who = read(with(kTorchrun, mine));
  ASSERT_TRUE(who.ok()) << who.status().text();
  EXPECT_EQ(who->launcher, "COLL_*");
  EXPECT_EQ(who->rank, 1);
  EXPECT_EQ(who->size, 2);
  EXPECT_EQ(who->place.addresses[0], "node1:29500");

  const Result<Launch> where = read(with(kTorchrun, {{"COLL_RENDEZVOUS", "tcp://[::1]:99"}}));
  ASSERT_TRUE(where.ok()) << where.status().text();
  EXPECT_EQ(where->rank, 3);
  EXPECT_EQ(where->place.addresses, std::vector<std::string>{"[::1]:99"});

  EXPECT_THAT(read(mine).status().text(), HasSubstr("COLL_RENDEZVOUS"));
  const Status no_place = read({{"RANK", "3"}, {"WORLD_SIZE", "8"}}).status();
  EXPECT_EQ(no_place.code(), Code::invalid_usage);
  EXPECT_THAT(no_place.text(), HasSubstr("has its rank from torchrun, but nothing says where"));
  EXPECT_TRUE(read({{"COLL_RANK", "0"}, {"COLL_SIZE", "1"}}).ok()) << "one rank meets nobody";
}

TEST(Launch, PlacesThatAreNoneAreRefused) {
  for (const char* text : {"", "host:1", "tcp://host", "tcp://:1", "tcp://host:x", "file://tmp/x",
                           "file:///", "http://a:1"}) {
    const Result<MeetingPlace> place = place_from_text(text, "k", "", "test");
    EXPECT_EQ(place.status().code(), Code::invalid_argument) << text;
  }
  EXPECT_TRUE(place_from_text("tcp://host:1/", "k", "", "test").ok());
}

TEST(Launch, SeveralHostsUnderOpenMpiMeetByPmix) {
  const Result<Launch> launch = read(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->place.kind, MeetingPlace::Kind::pmi);
  EXPECT_EQ(launch->place.path, "pmix");
  const Result<Launch> master = read(with(kOpenMpi, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}));
  EXPECT_EQ(master->place.addresses[0], "a:1") << "what the user set goes first";
}

TEST(Launch, MpichWithoutItsLineAsksForAPlace) {
  Variables variables = kMpich;
  variables.erase("PMI_FD");
  EXPECT_THAT(read(variables).status().text(), HasSubstr("PMI_FD"));
  EXPECT_THAT(read(variables).status().text(), HasSubstr("COLL_RENDEZVOUS"));
}

TEST(Launch, SlurmMeetsOnItsFirstHost) {
  const Result<Launch> launch = read(kSlurm);
  EXPECT_THAT(launch->place.addresses[0], ::testing::StartsWith("node007:"));
  const Result<Launch> other = read(with(kSlurm, {{"SLURM_STEP_ID", "1"}}));
  EXPECT_NE(other->place.addresses[0], launch->place.addresses[0]);
  EXPECT_NE(other->place.key, launch->place.key);
}

TEST(Launch, SlurmMeetsByPmixWhereItServesIt) {
  const Result<Launch> launch = read(with(kSlurm, {{"PMIX_NAMESPACE", "slurm.pmix.77.0"}}));
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->place.kind, pmix_loads() ? MeetingPlace::Kind::pmi : MeetingPlace::Kind::tcp);
  EXPECT_EQ(launch->place.key, read(kSlurm)->place.key);
}

TEST(Launch, ASecretIsWhatNobodyCanGuess) {
  const auto secret = [](const Variables& variables) { return read(variables)->place.secret; };
  EXPECT_FALSE(secret(kTorchrun));
  EXPECT_FALSE(secret(kSlurm));
  EXPECT_FALSE(secret(with(kTorchrun, {{"COLL_SECRET", ""}})));
  EXPECT_FALSE(secret(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}})));
  EXPECT_FALSE(secret(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "20261122-1"}})));
  EXPECT_FALSE(secret(
      with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "my-training-of-a-large-model-in-november"}})));
  EXPECT_TRUE(
      secret(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "5b1f7e0c-93f1-4e06-8c57-0f6bd9a0f7b3"}})));
  EXPECT_FALSE(secret(with(kTorchrun, {{"COLL_RENDEZVOUS", "tcp://host:1"}})));
  for (const Variables& variables :
       {kTorchrun, kSlurm, with(kTorchrun, {{"COLL_RENDEZVOUS", "tcp://host:1"}})}) {
    EXPECT_TRUE(secret(with(variables, {{"COLL_SECRET", "s"}})));
  }
}

TEST(FirstHost, OfSlurmsLists) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("node[007-012,20],login"), "node007");
  EXPECT_EQ(first_host("node[3]"), "node3");
  EXPECT_EQ(first_host("rack[1-2]node[5-6].local,x"), "rack1node5.local");
  EXPECT_EQ(first_host("node[1"), "");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace
}  // namespace coll
