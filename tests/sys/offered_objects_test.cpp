// SPDX-License-Identifier: Apache-2.0
// What is offered within a process is found while it is offered, and lives while somebody has it.
#include "sys/offered_objects.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace coll::test {
namespace {

TEST(OfferedObjects, AreFoundWhileTheyAreOffered) {
  auto object = std::make_shared<int>(42);
  std::optional<OfferedObject> offer(object), other(std::make_shared<int>(1));
  const std::uint64_t number = offer->number();
  EXPECT_NE(other->number(), number);
  EXPECT_EQ(OfferedObject::find(other->number()), nullptr) << "nobody has it any more";
  std::shared_ptr<void> found = OfferedObject::find(number);
  EXPECT_EQ(found, object);
  object.reset();
  EXPECT_EQ(OfferedObject::find(number), found) << "whoever found it has it";
  offer.reset();
  EXPECT_EQ(OfferedObject::find(number), nullptr);
  EXPECT_EQ(*static_cast<int*>(found.get()), 42);
  const OfferedObject later(found);
  EXPECT_NE(later.number(), number);
}

}  // namespace
}  // namespace coll::test
