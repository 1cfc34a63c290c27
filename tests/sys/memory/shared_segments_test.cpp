// SPDX-License-Identifier: Apache-2.0
// Which memory of this process others can map, while it changes.
#include "sys/memory/shared_segments.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "sys/child_process.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

using testing::in_child;

constexpr std::size_t kUnit = 1000;

/// Nothing here reads or maps: addresses and a descriptor are enough.
const std::byte* address(std::size_t unit) {
  return reinterpret_cast<const std::byte*>((std::size_t{1} << 40) + unit * kUnit);
}
Fd some_file() {
  static const Fd one(::memfd_create("coll-test", MFD_CLOEXEC));
  return Fd(::dup(one.get()));
}
/// Units [first, first + count), at an offset that tells them apart. 0: it overlaps.
std::uint64_t add(std::size_t first, std::size_t count) {
  const auto added = SharedSegments::add(address(first), count * kUnit, some_file(), first * 7);
  EXPECT_TRUE(added.ok() || added.status().code() == Code::invalid_argument);
  return added.ok() ? added->segment : 0;
}
bool remove(std::size_t first) {
  return SharedSegments::remove(address(first)).ok();
}

TEST(SharedSegments, AreFoundAsTheyWereAdded) {
  struct Known {
    std::size_t count;
    std::uint64_t segment;
  };
  constexpr std::size_t kUnits = 300;
  std::map<std::size_t, Known> model;
  std::mt19937_64 random(test::test_seed());
  const auto owner_of = [&](std::size_t unit) {
    auto after = model.upper_bound(unit);
    if (after == model.begin()) return model.end();
    --after;
    return unit < after->first + after->second.count ? after : model.end();
  };
  std::uint64_t last = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t first = random() % kUnits;
    const std::size_t count = random() % 5 + 1;
    if (random() % 2 == 0) {
      EXPECT_EQ(remove(first), model.erase(first) == 1);
    } else {
      bool apart = true;
      for (std::size_t unit = first; unit < first + count; ++unit)
        apart &= owner_of(unit) == model.end();
      const std::uint64_t segment = add(first, count);
      ASSERT_EQ(segment != 0, apart);
      if (apart) {
        EXPECT_GT(segment, last) << "numbers are never given again";
        last = segment;
        model[first] = {count, segment};
      }
    }
    const std::size_t unit = random() % kUnits;
    const std::size_t length = random() % (2 * kUnit) + 1;
    const auto place = SharedSegments::find(address(unit) + 1, length);
    const auto owner = owner_of(unit);
    const bool inside = owner != model.end() &&
                        (unit - owner->first) * kUnit + 1 + length <= owner->second.count * kUnit;
    ASSERT_EQ(place.has_value(), inside);
    if (!inside) continue;
    EXPECT_EQ(place->segment, owner->second.segment);
    EXPECT_EQ(place->offset, owner->first * 7 + (unit - owner->first) * kUnit + 1);
  }
  for (const auto& [first, known] : model) EXPECT_TRUE(remove(first));
  EXPECT_EQ(SharedSegments::find(address(0), 1), std::nullopt);
}

TEST(SharedSegments, ARangeInTwoWindowsIsNotShared) {
  constexpr std::size_t kWindow = SharedPlace::kWindow;
  const auto added = SharedSegments::add(address(0), 3 * kWindow, some_file(), kWindow - 100);
  ASSERT_TRUE(added.ok()) << added.status().text();
  EXPECT_TRUE(SharedSegments::find(address(0), 100));
  EXPECT_FALSE(SharedSegments::find(address(0), 101));
  EXPECT_TRUE(SharedSegments::find(address(0) + 100, kWindow));
  EXPECT_FALSE(SharedSegments::find(address(0) + 100, kWindow + 1));
  EXPECT_FALSE(SharedSegments::find(address(0) + 100, ~std::size_t{0}));
  EXPECT_TRUE(remove(0));
}

TEST(SharedSegments, NoFileIsAFailure) {
  EXPECT_EQ(SharedSegments::add(address(0), 1, Fd(), 0).status().code(), Code::system);
  EXPECT_EQ(SharedSegments::find(address(0), 1), std::nullopt);
}

/// What stays is found all the time, what comes and goes as it is or not at all.
TEST(SharedSegments, AreFoundWhileOthersComeAndGo) {
  constexpr std::size_t kStay = 500, kChange = 100;
  const std::uint64_t stays = add(kStay, 3);
  ASSERT_NE(stays, 0U);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int id = 0; id < 4; ++id) {  // more than processors: some stop in the middle
    readers.emplace_back([&] {
      std::mt19937_64 random(test::test_seed());
      while (!stop.load(std::memory_order_relaxed)) {
        const auto place = SharedSegments::find(address(kStay) + 2, kUnit);
        if (!place || place->segment != stays || place->offset != kStay * 7 + 2) ++wrong;
        const std::size_t unit = random() % kChange;
        const auto other = SharedSegments::find(address(unit), 1);
        if (other && other->offset != unit * 7) ++wrong;
      }
    });
  }
  std::mt19937_64 random(test::test_seed());
  for (int step = 0; step < 80'000; ++step) {
    const std::size_t unit = random() % kChange;
    if (remove(unit)) continue;
    EXPECT_NE(add(unit, 1), 0U);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  for (std::size_t unit = 0; unit < kChange; ++unit) (void)remove(unit);
  EXPECT_TRUE(remove(kStay));
}

/// Though another thread is adding some at that moment.
TEST(SharedSegments, AForkStartsWithoutAny) {
  ASSERT_NE(add(500, 1), 0U);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) EXPECT_TRUE(add(0, 1) != 0 && remove(0));
  });
  for (int fork = 0; fork < 20; ++fork) {
    EXPECT_EQ(in_child([] {
                for (std::size_t unit = 0; unit < 501; ++unit)
                  if (SharedSegments::find(address(unit), 1)) return 1;
                return add(0, 501) != 0 ? 0 : 2;
              }),
              0);
  }
  stop = true;
  busy.join();
  EXPECT_TRUE(SharedSegments::find(address(500), 1));
  for (std::size_t unit = 0; unit < 501; ++unit) (void)remove(unit);
}

}  // namespace
}  // namespace coll
