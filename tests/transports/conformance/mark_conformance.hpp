// SPDX-License-Identifier: Apache-2.0
// The part of the suite about marks: what is sent later keeps nobody waiting.
#pragma once
#include "transports/conformance/transport_conformance.hpp"

namespace coll::test {

/// What this process still holds of later messages is nothing to who waits for earlier ones.
TEST_P(TransportConformance, AMarkIsReachedAlthoughLaterMessagesAreStuck) {
  Pair pair(GetParam(), 4096, 8);
  ASSERT_TRUE(pair.ready);
  Connection& to = *pair.ends[0];
  Connection& from = *pair.ends[1];
  const std::vector<std::byte> data(4000, std::byte{1});
  ASSERT_TRUE(pair.drive([&] { return to.send(data.data(), data.size(), 1); }));
  const Mark mark = to.mark();
  EXPECT_TRUE(pair.drive([&] { return to.flushed(mark); }));
  int sent = 0;
  for (int refused = 0; refused < 100; nudge(to)) {
    to.send(data.data(), data.size(), 2) ? ++sent : ++refused;
  }
  EXPECT_TRUE(to.flushed(mark));
  std::vector<std::byte> got(data.size());
  ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 1); }));
  for (; sent > 0; --sent)
    ASSERT_TRUE(pair.drive([&] { return from.receive(got.data(), got.size(), 2); }));
  EXPECT_TRUE(pair.drive([&] { return all_flushed(to); }));
}

}  // namespace coll::test
