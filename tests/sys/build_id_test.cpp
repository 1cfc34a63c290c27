// SPDX-License-Identifier: Apache-2.0
// The ID that the linker gave to this program. (That a library has its own: coll_perf_run_test.py.)
#include "sys/build_id.hpp"

#include <gtest/gtest.h>

#include "sys/proof.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

/// The linker writes it as a note: lengths of name and contents, type 3, "GNU", the ID.
TEST(BuildId, IsInTheProgramThatRuns) {
  const std::string id = build_id();
  ASSERT_GE(id.size(), 16U);
  const auto program = read_file("/proc/self/exe", std::size_t{1} << 30);
  ASSERT_TRUE(program.ok()) << program.status().text();
  const std::size_t note = program->find(std::string("\3\0\0\0GNU\0", 8));
  ASSERT_NE(note, std::string::npos);
  EXPECT_EQ(id, to_hex(program->substr(note + 8, id.size() / 2)));
}

}  // namespace
}  // namespace coll
