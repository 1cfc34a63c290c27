// SPDX-License-Identifier: Apache-2.0
// ZeRO-Infinity (Rajbhandari et al. 2021, arXiv 2104.07857, sections 5 and 6): states lie in a file
// on a disk, and pass through host memory chunk by chunk. With K = 8 bytes of states for each owned
// element, or 12 where weights have 16 bits, a step
//
//   reads K bytes and writes K bytes for each owned element,
//
// paddings of chunks to pages apart. Host memory: a ring of 3 chunks of each array. While AdamW
// works on chunk i, chunk i + 1 is read and chunk i - 1 is written.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "device_link.hpp"
#include "state_store.hpp"
#include "work_log.hpp"
#include "worker_pool.hpp"

namespace training {

struct FileOptions {
  std::string folder = {};                          ///< on a local disk, best on NVMe
  std::string means = {};                           ///< of I/O (state_io.hpp); empty: the best
  std::size_t chunk_bytes = std::size_t{1} << 20U;  ///< of each array
  std::size_t adam_threads = 1;
  bool direct = true;  ///< whether to try O_DIRECT
  /// Where what was done is noted, for each chunk; null: nowhere. A transfer ends there when the
  /// thread that runs AdamW has waited for it: the disk may have been done before.
  WorkLog* work = nullptr;
};

/// What updates moved; read() and write() are not counted.
struct FileTraffic {
  std::size_t read = 0, written = 0;                  ///< of elements
  std::size_t read_padding = 0, written_padding = 0;  ///< of chunks, to whole pages
};

class FileOptimizer final : public Optimizer {
 public:
  FileOptimizer(Owned owned, Arena& host, DeviceLink& link, const FileOptions& options);
  ~FileOptimizer() override;

  void begin(std::size_t bucket, std::span<const float> weights) override;
  void update(std::size_t bucket, const Update& update, const void* gradients,
              void* weights) override;
  /// A failed read or write is thrown here; after it no state can be relied on.
  void finish(std::size_t bucket) override;
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) override;
  void write(std::size_t bucket, State state, std::size_t first,
             std::span<const float> from) override;
  void move_to(const FlatLayout& layout) override;

  /// "io_uring, O_DIRECT" and the like.
  [[nodiscard]] std::string means() const { return store_->io().means(); }
  /// Of all updates so far; none goes on.
  [[nodiscard]] FileTraffic traffic() const { return traffic_; }

 private:
  static constexpr std::size_t kSlots = 3;
  struct Job {
    StateStore::Chunk chunk;
    std::shared_ptr<const Update> update;
    const std::byte* gradients;  ///< of the bucket's owned part
    std::byte* weights;
  };
  [[nodiscard]] std::unique_ptr<StateStore> make_store(const FlatLayout& layout);
  [[nodiscard]] std::byte* slot(std::size_t number) const;
  std::optional<Job> take(bool wait);
  void run();
  void run_jobs();
  void start(std::size_t number, const Job& job, bool write);
  void settle(std::size_t number);
  [[nodiscard]] std::size_t payload(const StateStore::Chunk& chunk) const;
  void note(WorkLog::Kind kind, const StateStore::Chunk& chunk,
            WorkLog::Clock::time_point begin) const;
  void adam(const Job& job, std::byte* data);
  void adam_part(const Job& job, std::byte* data, const Range& part);

  Owned owned_;
  FileOptions options_;
  DeviceLink& link_;
  Block<std::byte> ring_;
  std::unique_ptr<StateStore> store_;
  FileTraffic traffic_;
  std::array<std::optional<StateStore::Chunk>, kSlots> writing_;  ///< by slot
  std::array<WorkLog::Clock::time_point, kSlots> started_;        ///< transfers, by slot

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<std::size_t> left_;  ///< of buckets: chunks to do
  bool stopped_ = false;
  std::exception_ptr failure_;
  WorkerPool workers_;  ///< help with AdamW
  std::thread pipeline_;
};

}  // namespace training
