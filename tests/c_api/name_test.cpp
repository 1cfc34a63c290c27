// SPDX-License-Identifier: Apache-2.0
// The name of a communicator: kept, shown, checked.
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <cstddef>
#include <string>
#include <utility>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

/// One rank.
coll_status_t join_named(const char* name, coll_comm_t* comm) {
  coll_unique_id_t id;
  EXPECT_TRUE(ok(coll_get_unique_id(&id)));
  coll_config_t config = COLL_CONFIG_INIT;
  config.name = name;
  return coll_comm_init_rank(comm, 1, &id, 0, &config);
}

std::string name_of(coll_comm_t comm) {
  const char* name = nullptr;
  EXPECT_TRUE(ok(coll_comm_name(comm, &name)));
  return name;
}

TEST(Name, IsCopiedAndShown) {
  coll_comm_t comm = nullptr;
  std::string name = "tensor parallel";
  ASSERT_TRUE(ok(join_named(name.c_str(), &comm)));
  name[0] = 'X';
  EXPECT_EQ(name_of(comm), "tensor parallel");
  const std::string text = explained(comm, asked(COLL_ALL_REDUCE, 8, COLL_INT8));
  EXPECT_EQ(text.find("communicator tensor parallel\n"), 0U) << text;

  ASSERT_TRUE(ok(coll_comm_abort(comm)));
  EXPECT_EQ(coll_barrier(comm, nullptr), COLL_ABORTED);
  const std::string shown = "[communicator tensor parallel]";
  EXPECT_NE(std::string(coll_last_error()).find(shown), std::string::npos) << coll_last_error();
  const char* status = nullptr;
  EXPECT_EQ(coll_comm_status(comm, &status), COLL_ABORTED);
  EXPECT_NE(std::string(status).find(shown), std::string::npos) << status;
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
}

TEST(Name, BelongsToOneCommunicator) {
  coll_comm_t comm = nullptr, copy = nullptr, named = nullptr;
  ASSERT_TRUE(ok(join_named("first", &comm)));
  ASSERT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &copy)));
  EXPECT_EQ(name_of(copy), "");
  coll_config_t config = COLL_CONFIG_INIT;
  config.name = "second";
  ASSERT_TRUE(ok(coll_comm_duplicate(comm, &config, &named)));
  EXPECT_EQ(name_of(named), "second");
  EXPECT_EQ(name_of(comm), "first");
  ASSERT_TRUE(ok(coll_comm_abort(copy)));
  EXPECT_EQ(coll_barrier(copy, nullptr), COLL_ABORTED);
  EXPECT_EQ(std::string(coll_last_error()).find("[communicator"), std::string::npos);
  for (coll_comm_t each : {comm, copy, named}) EXPECT_TRUE(ok(coll_comm_destroy(each)));
}

TEST(Name, FitsALine) {
  coll_comm_t comm = nullptr;
  const std::string longest(COLL_NAME_BYTES_MAX, 'n');
  ASSERT_TRUE(ok(join_named(longest.c_str(), &comm)));
  EXPECT_EQ(name_of(comm), longest);
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  comm = nullptr;
  EXPECT_EQ(join_named((longest + "n").c_str(), &comm), COLL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(coll_last_error()).find("has 64 bytes"), std::string::npos);
  EXPECT_EQ(join_named("two\nlines", &comm), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(coll_comm_name(nullptr, nullptr), COLL_INVALID_ARGUMENT);
}

TEST(Name, IsMissingInAConfigOfAnOlderVersion) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  coll_config_t config = COLL_CONFIG_INIT;
  config.size = offsetof(coll_config_t, name);
  config.name = "behind its end";
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(coll_comm_init_rank(&comm, 1, &id, 0, &config)));
  EXPECT_EQ(name_of(comm), "");
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
}

TEST(CppName, IsAText) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  coll_config_t config = COLL_CONFIG_INIT;
  config.name = "data";
  auto comm = Communicator::join(id, 1, 0, &config);
  ASSERT_TRUE(comm);
  EXPECT_EQ(comm->name(), "data");
  const Communicator moved = std::move(*comm);
  EXPECT_EQ(comm->name(), "") << "moved from";
}

}  // namespace
}  // namespace collectives::testing
