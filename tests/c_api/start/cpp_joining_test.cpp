// SPDX-License-Identifier: Apache-2.0
// The C++ face of joins that do not block.
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "temporary_folder.hpp"

namespace collectives::testing {
namespace {

static_assert(!std::is_copy_constructible_v<Joining> && std::is_nothrow_move_assignable_v<Joining>);

coll_unique_id_t new_id() {
  coll_unique_id_t id{};
  EXPECT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  return id;
}

Joining started(Result<Joining> joining) {
  if (!joining) ADD_FAILURE() << joining.error().text;
  return *std::move(joining);
}

/// Waits for the communicator and takes it.
Communicator joined(Joining joining) {
  const auto over = joining.wait();
  if (!over) ADD_FAILURE() << over.error().text;
  EXPECT_TRUE(*over);
  return *joining.take();
}

std::int64_t sum_of_ones(std::vector<Communicator>& comms) {
  std::vector<std::vector<std::int64_t>> sums(comms.size(), {1});
  auto group = Group::start();
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    EXPECT_TRUE(comms[rank].all_reduce(std::span<const std::int64_t>(sums[rank]),
                                       std::span<std::int64_t>(sums[rank])));
  }
  const auto ended = group->end();
  EXPECT_TRUE(ended) << ended.error().text;
  return sums.back()[0];
}

TEST(CppJoining, OneThreadIsSeveralRanks) {
  const coll_unique_id_t id = new_id();
  std::vector<Joining> joinings;
  for (int rank = 0; rank < 3; ++rank) {
    joinings.push_back(started(Joining::start(
        [&](const coll_config_t& config) { return Communicator::join(id, 3, rank, &config); },
        config_with())));
  }
  EXPECT_FALSE(joinings[0].take()) << "nobody has waited for it";
  std::vector<Communicator> comms;
  for (Joining& joining : joinings) comms.push_back(joined(std::move(joining)));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(comms[static_cast<std::size_t>(rank)].rank(), rank);
    EXPECT_EQ(comms[static_cast<std::size_t>(rank)].size(), 3);
  }
  EXPECT_EQ(sum_of_ones(comms), 3);
}

TEST(CppJoining, AtAPlace) {
  const coll::test::TemporaryFolder folder;
  std::vector<Joining> joinings;
  for (int rank = 0; rank < 2; ++rank) {
    joinings.push_back(started(Joining::start(
        [&](const coll_config_t& config) {
          return Communicator::join_at("file://" + folder.path() + "/meet", 2, rank, &config);
        },
        config_with())));
  }
  std::vector<Communicator> comms;
  for (Joining& joining : joinings) comms.push_back(joined(std::move(joining)));
  EXPECT_EQ(sum_of_ones(comms), 2);
}

TEST(CppJoining, OfASplit) {
  auto whole = Communicator::join(new_id(), 1, 0);
  ASSERT_TRUE(whole) << whole.error().text;
  for (const int color : {0, COLL_SPLIT_NONE}) {
    Joining joining = started(Joining::start(
        [&](const coll_config_t& config) { return whole->split(color, 0, &config); }));
    const auto over = joining.wait();
    ASSERT_TRUE(over) << over.error().text;
    EXPECT_TRUE(*over);
    std::optional<Communicator> part = joining.take();
    EXPECT_EQ(part.has_value(), color == 0);
    if (part) {
      EXPECT_EQ(part->size(), 1);
    }
    EXPECT_FALSE(joining.take()) << "once";
    EXPECT_TRUE(*joining.wait()) << "it stays over";
  }
}

TEST(CppJoining, SaysWhetherItIsOverAndHowItFailed) {
  const coll_unique_id_t id = new_id();
  Joining joining = started(Joining::start(
      [&](const coll_config_t& config) { return Communicator::join(id, 2, 0, &config); },
      config_with(30, 2)));
  const auto looked = joining.finished();
  ASSERT_TRUE(looked) << looked.error().text;
  EXPECT_FALSE(*looked);
  for (int i = 0; i < 2; ++i) {
    const auto waited = joining.wait();
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code, COLL_DEADLINE);
    EXPECT_NE(waited.error().text.find("rank 1"), std::string::npos) << waited.error().text;
  }
  EXPECT_FALSE(joining.take());
}

TEST(CppJoining, RefusesWhatDoesNotJoin) {
  const auto refused = Joining::start(
      [](const coll_config_t& config) { return Communicator::join({}, 0, 0, &config); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, COLL_INVALID_ARGUMENT);
  const auto blocks =
      Joining::start([](const coll_config_t&) { return Communicator::join(new_id(), 1, 0); });
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code, COLL_INVALID_ARGUMENT);
  EXPECT_NE(blocks.error().text.find("did not join with its config"), std::string::npos);
}

/// Also a communicator that nobody takes ends.
TEST(CppJoining, MovesAndMayBeLeft) {
  const coll_unique_id_t id = new_id();
  const auto join = [&](const coll_config_t& config) {
    return Communicator::join(id, 1, 0, &config);
  };
  Joining joining = started(Joining::start(join));
  Joining moved = std::move(joining);
  EXPECT_EQ(joining.get(), nullptr);                                               // NOLINT
  EXPECT_EQ(joining.wait(0).error().code, COLL_INVALID_ARGUMENT) << "moved from";  // NOLINT
  ASSERT_TRUE(moved.wait());
  joining = std::move(moved);
  std::optional<Communicator> comm = joining.take();
  ASSERT_TRUE(comm);
  EXPECT_TRUE(comm->barrier());
  const coll_unique_id_t other = new_id();
  const Joining left = started(Joining::start(
      [&](const coll_config_t& config) { return Communicator::join(other, 1, 0, &config); }));
}

}  // namespace
}  // namespace collectives::testing
