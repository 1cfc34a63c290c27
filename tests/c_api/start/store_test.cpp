// SPDX-License-Identifier: Apache-2.0
// Ranks that meet by a key-value store of the program.
#include <gtest/gtest.h>

#include <chrono>
#include <collectives/collectives.hpp>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"

namespace collectives::testing {
namespace {

/// A store in this process, for ranks that are threads.
class MapStore {
 public:
  bool only_looks = false;                   ///< get() does not wait
  coll_status_t set_returns = COLL_SUCCESS;  ///< without doing it, if it is another
  coll_status_t get_returns = COLL_SUCCESS;

  [[nodiscard]] coll_store_t calls() {
    coll_store_t store = COLL_STORE_INIT;
    store.context = this;
    store.set = [](void* context, const char* key, const char* value, std::size_t bytes) {
      return static_cast<MapStore*>(context)->set(key, std::string(value, bytes));
    };
    store.get = [](void* context, const char* key, char* value, std::size_t capacity,
                   std::size_t* bytes, double timeout_s) {
      return static_cast<MapStore*>(context)->get(key, value, capacity, bytes, timeout_s);
    };
    return store;
  }

  coll_status_t set(const std::string& key, const std::string& value) {
    if (set_returns != COLL_SUCCESS) return set_returns;
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    read_ = false;
    changed_.notify_all();
    return COLL_SUCCESS;
  }

  /// Waits until a key has a value that is not empty.
  std::string value_of(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !values_[key].empty(); });
    return values_[key];
  }

  /// Waits until somebody has read what was set last.
  void await_read() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_; });
  }

 private:
  coll_status_t get(const std::string& key, char* value, std::size_t capacity, std::size_t* bytes,
                    double timeout_s) {
    if (get_returns != COLL_SUCCESS) return get_returns;
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.contains(key); };
    const std::chrono::duration<double> wait(only_looks ? 0 : timeout_s);
    if (!changed_.wait_for(lock, wait, there)) return COLL_DEADLINE;
    const std::string& found = values_[key];
    *bytes = found.size();
    read_ = true;
    changed_.notify_all();
    if (found.size() <= capacity) std::memcpy(value, found.data(), found.size());
    return COLL_SUCCESS;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool read_ = false;
};

coll_status_t join_by(MapStore& store, int size, int rank, coll_comm_t* comm, double connect_s = 30,
                      const char* key = "job/0") {
  const coll_store_t calls = store.calls();
  const coll_config_t config = config_with(30, connect_s);
  return coll_comm_init_store(comm, size, rank, &calls, key, &config);
}

/// Joins, and sums over the ranks.
void join_and_sum(MapStore& store, int size, int rank) {
  coll_comm_t comm = nullptr;
  ASSERT_TRUE(ok(join_by(store, size, rank, &comm)));
  const Values in{rank + 1};
  Values out{0};
  EXPECT_TRUE(ok(all_reduce(in, out, comm)));
  EXPECT_EQ(out[0], size * (size + 1) / 2);
  EXPECT_TRUE(ok(coll_comm_destroy(comm)));
}

void in_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(Store, BringsAnyNumberOfRanksTogether) {
  for (const bool only_looks : {false, true}) {
    for (const int size : {1, 2, 3, 5}) {
      MapStore store;
      store.only_looks = only_looks;
      in_threads(size, [&](int rank) { join_and_sum(store, size, rank); });
    }
  }
}

TEST(Store, ServesOneCommunicatorAfterAnother) {
  MapStore store;
  in_threads(3, [&](int rank) {
    for (int i = 0; i < 5; ++i) join_and_sum(store, 3, rank);
  });
}

TEST(Store, ServesSeveralAtOnceByKeys) {
  MapStore store;
  // Two threads of each of two ranks, in any order.
  in_threads(4, [&](int thread) {
    const int rank = thread % 2;
    const std::string key = "pair " + std::to_string(thread / 2);
    coll_comm_t comm = nullptr;
    ASSERT_TRUE(ok(join_by(store, 2, rank, &comm, 30, key.c_str())));
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    EXPECT_TRUE(ok(coll_comm_destroy(comm)));
  });
}

/// What a rank 0 that was killed has left: the others find it before the new rank 0 comes.
TEST(Store, FindsAWayPastALeftover) {
  MapStore store;
  coll_comm_t comm = nullptr;
  std::thread first([&] { EXPECT_EQ(join_by(store, 2, 0, &comm, 0.2), COLL_DEADLINE); });
  const std::string leftover = store.value_of("job/0");
  first.join();
  EXPECT_EQ(comm, nullptr);
  ASSERT_TRUE(ok(store.set("job/0", leftover)));
  std::thread late([&] {
    store.await_read();
    join_and_sum(store, 2, 0);
  });
  join_and_sum(store, 2, 1);
  late.join();
}

TEST(Store, WaitsForRankZeroInVain) {
  MapStore store;
  coll_comm_t comm = nullptr;
  for (const bool only_looks : {false, true}) {
    store.only_looks = only_looks;
    EXPECT_EQ(join_by(store, 2, 1, &comm, 0.1), COLL_DEADLINE);
    EXPECT_NE(std::strstr(coll_last_error(), "rank 0 did not come in time"), nullptr)
        << coll_last_error();
  }
  // Nobody is left in the way of another try.
  in_threads(2, [&](int rank) { join_and_sum(store, 2, rank); });
}

/// Its code is the call's, and its text names the key.
TEST(Store, FailsTheCallWhereItFails) {
  coll_comm_t comm = nullptr;
  MapStore store;
  const auto fails = [&](int rank, coll_status_t with, coll_status_t expected) {
    (rank == 0 ? store.set_returns : store.get_returns) = with;
    EXPECT_EQ(join_by(store, 2, rank, &comm), expected) << rank;
    const std::string word = rank == 0 ? "set(\"job/0\")" : "get(\"job/0\")";
    EXPECT_NE(std::string(coll_last_error()).find(word), std::string::npos) << coll_last_error();
  };
  fails(0, COLL_SYSTEM, COLL_SYSTEM);
  fails(1, COLL_PEER_LOST, COLL_PEER_LOST);
  fails(1, static_cast<coll_status_t>(77), COLL_UNREACHABLE);
  fails(0, COLL_IN_PROGRESS, COLL_UNREACHABLE);
  EXPECT_EQ(comm, nullptr);
}

TEST(Store, RefusesWhatNoRankHasPutThere) {
  coll_comm_t comm = nullptr;
  MapStore store;
  ASSERT_TRUE(ok(store.set("job/0", "somebody's")));
  EXPECT_EQ(join_by(store, 2, 1, &comm), COLL_MISMATCH);
  ASSERT_TRUE(ok(store.set("job/0", std::string(COLL_STORE_VALUE_BYTES_MAX + 1, 'a'))));
  EXPECT_EQ(join_by(store, 2, 1, &comm), COLL_MISMATCH);
  EXPECT_NE(std::strstr(coll_last_error(), "1025 bytes"), nullptr) << coll_last_error();
}

TEST(Store, BadArgumentsAreRefused) {
  MapStore map;
  coll_comm_t comm = nullptr;
  coll_store_t store = map.calls();
  const auto refused = [&](const char* word) {
    const coll_status_t status = coll_comm_init_store(&comm, 2, 0, &store, "key", nullptr);
    return status == COLL_INVALID_ARGUMENT && std::strstr(coll_last_error(), word) != nullptr;
  };
  store.get = nullptr;
  EXPECT_TRUE(refused("lacks a function")) << coll_last_error();
  store = map.calls();
  store.set = nullptr;
  EXPECT_TRUE(refused("lacks a function")) << coll_last_error();
  store = {};
  EXPECT_TRUE(refused("not initialised")) << coll_last_error();
  store = map.calls();
  EXPECT_EQ(coll_comm_init_store(&comm, 2, 0, nullptr, "key", nullptr), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_comm_init_store(&comm, 2, 2, &store, "key", nullptr), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_comm_init_store(&comm, 2, 0, &store, "", nullptr), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_comm_init_store(&comm, 2, 0, &store, nullptr, nullptr), COLL_INVALID_ARGUMENT);
  EXPECT_EQ(coll_comm_init_store(nullptr, 2, 0, &store, "key", nullptr), COLL_INVALID_ARGUMENT);
}

TEST(CppStore, JoinsToo) {
  MapStore map;
  in_threads(2, [&](int rank) {
    const coll_store_t store = map.calls();
    auto comm = Communicator::join_by(store, "cpp", 2, rank);
    ASSERT_TRUE(comm) << comm.error().text;
    EXPECT_TRUE(comm->barrier());
    auto part = comm->split(0);
    ASSERT_TRUE(part && *part);
    EXPECT_TRUE((*part)->barrier());
  });
}

}  // namespace
}  // namespace collectives::testing
