// SPDX-License-Identifier: Apache-2.0
// The ring: one thread begins transfers, waits for them and calls AdamW.
#include "file_optimizer.hpp"

#include <fmt/format.h>

#include <latch>

namespace training {
namespace {

const FileOptions& checked(const FileOptions& options) {
  if (options.chunk_bytes == 0 || options.chunk_bytes % kPage != 0) {
    throw Failure(fmt::format("chunks of the optimizer's file have {} bytes: make it a multiple of "
                              "{}, as 1048576",
                              options.chunk_bytes, kPage),
                  Failure::kBadUsage);
  }
  if (options.adam_threads == 0)
    throw Failure("offload to a file needs at least one thread", Failure::kBadUsage);
  return options;
}

}  // namespace

FileOptimizer::FileOptimizer(Owned owned, Arena& host, DeviceLink& link, const FileOptions& options)
    : owned_(std::move(owned)),
      options_(checked(options)),
      link_(link),
      ring_(host.take<std::byte>(kSlots * (owned_.keeps_weights() ? 3 : 2) * options.chunk_bytes,
                                 Use::staging)),
      store_(make_store(*owned_.layout)),
      left_(owned_.layout->buckets().size()),
      workers_(options.adam_threads - 1),
      pipeline_([this] { run(); }) {}

FileOptimizer::~FileOptimizer() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  pipeline_.join();
}

std::unique_ptr<StateStore> FileOptimizer::make_store(const FlatLayout& layout) {
  return std::make_unique<StateStore>(
      layout, owned_.shard, owned_.keeps_weights(),
      StateStore::Options{options_.folder, options_.means, options_.chunk_bytes, options_.direct},
      ring_.span().first(ring_.size() / kSlots));
}

std::byte* FileOptimizer::slot(std::size_t number) const {
  return ring_.data() + ring_.size() / kSlots * number;
}

void FileOptimizer::begin(std::size_t bucket, std::span<const float> weights) {
  if (owned_.keeps_weights()) store_->write(bucket, State::weights, 0, weights);
}

void FileOptimizer::update(std::size_t bucket, const Update& update, const void* gradients,
                           void* weights) {
  const auto kept = std::make_shared<const Update>(update);
  {
    const std::lock_guard lock(mutex_);
    for (const StateStore::Chunk& chunk : store_->chunks(bucket)) {
      jobs_.push_back({chunk, kept, static_cast<const std::byte*>(gradients),
                       static_cast<std::byte*>(weights)});
      ++left_[bucket];
    }
  }
  changed_.notify_all();
}

void FileOptimizer::finish(std::size_t bucket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return left_[bucket] == 0 || failure_ != nullptr; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

/// The next job; none if there is none now, or after the end.
std::optional<FileOptimizer::Job> FileOptimizer::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
  if (stopped_ || jobs_.empty()) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

void FileOptimizer::run() {
  try {
    run_jobs();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

void FileOptimizer::run_jobs() {
  std::optional<Job> next;  // its chunk is being read
  std::size_t next_slot = 0;
  for (;;) {
    if (!next) {
      for (std::size_t i = 0; i < kSlots; ++i) settle(i);
      next = take(true);
      if (!next) return;
      start(next_slot, *next, false);
    }
    const Job job = *std::move(next);
    const std::size_t own = next_slot;
    next_slot = (next_slot + 1) % kSlots;
    next = take(false);
    if (next) {
      settle(next_slot);
      start(next_slot, *next, false);
    }
    store_->io().wait(own);
    note(WorkLog::Kind::read, job.chunk, started_[own]);
    traffic_.read += payload(job.chunk);
    traffic_.read_padding += job.chunk.stride * store_->arrays() - payload(job.chunk);
    const auto began = WorkLog::begin(options_.work);
    adam(job, slot(own));
    note(WorkLog::Kind::adam, job.chunk, began);
    start(own, job, true);
    writing_[own] = job.chunk;
  }
}

/// Bytes of a chunk's states.
std::size_t FileOptimizer::payload(const StateStore::Chunk& chunk) const {
  return chunk.elements.count * sizeof(float) * store_->arrays();
}

void FileOptimizer::note(WorkLog::Kind kind, const StateStore::Chunk& chunk,
                         WorkLog::Clock::time_point begin) const {
  WorkLog::add(options_.work, kind, payload(chunk), begin);
}

void FileOptimizer::start(std::size_t number, const Job& job, bool write) {
  started_[number] = WorkLog::begin(options_.work);
  store_->io().start(number, store_->transfer(job.chunk, slot(number), write));
}

/// Waits until a slot's chunk is written.
void FileOptimizer::settle(std::size_t number) {
  std::optional<StateStore::Chunk>& chunk = writing_[number];
  if (!chunk) return;
  store_->io().wait(number);
  note(WorkLog::Kind::write, *chunk, started_[number]);
  traffic_.written += payload(*chunk);
  traffic_.written_padding += chunk->stride * store_->arrays() - payload(*chunk);
  const std::size_t bucket = chunk->bucket;
  chunk.reset();
  const std::lock_guard lock(mutex_);
  if (--left_[bucket] == 0) changed_.notify_all();
}

/// Threads take parts of the chunk, in whole blocks of 16 elements.
void FileOptimizer::adam(const Job& job, std::byte* data) {
  const std::size_t parts = options_.adam_threads, count = job.chunk.elements.count;
  const std::size_t most = (count / parts / kParameterAlignment + 1) * kParameterAlignment;
  const auto part = [=](std::size_t i) {
    const std::size_t begin = std::min(i * most, count);
    return Range{begin, std::min(most, count - begin)};
  };
  std::latch done(static_cast<std::ptrdiff_t>(parts - 1));
  for (std::size_t i = 1; i < parts; ++i) {
    workers_.add([&, i](std::size_t /*worker*/) {
      adam_part(job, data, part(i));
      done.count_down();
    });
  }
  adam_part(job, data, part(0));
  done.wait();
}

/// AdamW on a part of a chunk, tile by tile: gradients come over the link, and weights in f32 where
/// the file has none; weights go back.
void FileOptimizer::adam_part(const Job& job, std::byte* data, const Range& part) {
  constexpr std::size_t kTile = 2048;
  alignas(64) std::array<std::byte, kTile * sizeof(float)> gradients, weights;
  const StateStore::Chunk& chunk = job.chunk;
  const std::size_t in = bytes_of(owned_.gradients), out = bytes_of(owned_.weights);
  const bool keeps = owned_.keeps_weights();
  for (std::size_t at = part.begin; at < part.end(); at += kTile) {
    const std::size_t count = std::min(kTile, part.end() - at);
    const std::size_t element = chunk.elements.begin + at;  // of the bucket's owned part
    std::byte* device = job.weights + element * out;
    link_.copy(DeviceLink::Way::to_host, gradients.data(), job.gradients + element * in,
               count * in);
    if (!keeps) link_.copy(DeviceLink::Way::to_host, weights.data(), device, count * out);
    const Wide wide{keeps ? StateStore::array(chunk, data, State::weights) + at
                          : reinterpret_cast<float*>(weights.data()),
                    StateStore::array(chunk, data, State::first_moment) + at,
                    StateStore::array(chunk, data, State::second_moment) + at};
    adam_in_tiles(owned_, chunk.bucket, *job.update,
                  {owned_.range(chunk.bucket).begin + element, count}, gradients.data(),
                  weights.data(), wide);
    link_.copy(DeviceLink::Way::to_device, device, weights.data(), count * out);
  }
}

void FileOptimizer::read(std::size_t bucket, State state, std::size_t first, std::span<float> to) {
  store_->read(bucket, state, first, to);
}

void FileOptimizer::write(std::size_t bucket, State state, std::size_t first,
                          std::span<const float> from) {
  store_->write(bucket, state, first, from);
}

void FileOptimizer::move_to(const FlatLayout& layout) {
  std::unique_ptr<StateStore> moved = make_store(layout);
  std::vector<float> values(options_.chunk_bytes / sizeof(float));
  std::vector<State> states = {State::first_moment, State::second_moment};
  if (owned_.keeps_weights()) states.push_back(State::weights);
  for (const Bucket& bucket : owned_.layout->buckets()) {
    for (const Place& from : bucket.places) {
      const Place& to = layout.place(from.unit, from.parameter);
      for (std::size_t at = 0; at < from.size; at += values.size()) {
        const std::span part(values.data(), std::min(values.size(), from.size - at));
        for (const State state : states) {
          store_->read(from.bucket, state, from.offset + at, part);
          moved->write(to.bucket, state, to.offset + at, part);
        }
      }
    }
  }
  store_ = std::move(moved);
  owned_.layout = &layout;
  left_.assign(layout.buckets().size(), 0);
}

}  // namespace training
