// SPDX-License-Identifier: Apache-2.0
// All-reduces one after another, whose ends a callback tells.
#include "measured_cost.hpp"

#include <algorithm>
#include <latch>

namespace training {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

AllReduceCost::AllReduceCost(collectives::Communicator& comm, Mover mover, std::size_t bytes,
                             std::size_t all)
    : comm_(comm), mover_(mover), data_(std::max(all, 2 * bytes) / sizeof(float)) {
  for (const std::size_t size : {bytes / 2, bytes, 2 * bytes})
    sizes_.push_back({size / sizeof(float), {}});
}

double AllReduceCost::seconds_of(std::size_t count) {
  const std::size_t operations = data_.size() / count;
  value_of(comm_.barrier());
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < operations; ++i) {
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.send = call.recv = data_.data() + i * count;
    call.count = count;
    call.type = COLL_FLOAT32;
    coll_work_t handle = nullptr;
    value_of(collectives::detail::result(coll_start(&call, comm_.get(), nullptr, &handle)));
    collectives::Work work(handle);
    std::latch ended(1);
    const auto end = [](void* latch, coll_status_t /*status*/) {
      static_cast<std::latch*>(latch)->count_down();
    };
    value_of(collectives::detail::result(coll_work_on_end(handle, end, &ended)));
    if (mover_ == Mover::library) ended.wait();
    value_of(work.wait());
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() /
         static_cast<double>(operations);
}

void AllReduceCost::measure() {
  for (Size& size : sizes_) size.seconds.push_back(seconds_of(size.count));
}

Cost AllReduceCost::cost() {
  std::vector<Sample> samples;
  for (Size& size : sizes_) {
    std::vector<double> slowest = size.seconds;
    value_of(comm_.all_reduce<double>(slowest, COLL_MAX));
    samples.push_back({static_cast<double>(size.count * sizeof(float)), median(slowest)});
  }
  return fit_cost(samples);
}

}  // namespace training
