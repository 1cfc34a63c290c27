// SPDX-License-Identifier: Apache-2.0
// Counts what is allocated, and for what.
#include "arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

namespace training {
namespace {

/// Whether operations move it. Other memory is the process's own: its pages can be huge.
bool is_sent(Use use) {
  return use != Use::optimizer && use != Use::staging;
}

/// Zeroed.
void* take_private(std::size_t bytes, Use use) {
  void* memory = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Failure(fmt::format("the machine has no {} bytes for {}", bytes, name_of(use)));
  (void)madvise(memory, bytes, MADV_HUGEPAGE);  // advice: nothing depends on it
  return memory;
}

}  // namespace

const char* name_of(Use use) {
  constexpr const char* kNames[kUses] = {"parameters",  "gradients", "optimizer",
                                         "activations", "buckets",   "staging"};
  return kNames[static_cast<std::size_t>(use)];
}

void* Arena::allocate(std::size_t bytes, Use use) {
  if (bytes > limit_ - std::min(limit_, all_)) {
    std::string text = fmt::format(
        "{} bytes for {} do not fit the limit of {} bytes. In use:", bytes, name_of(use), limit_);
    for (std::size_t i = 0; i < kUses; ++i)
      text += fmt::format(" {} {},", name_of(static_cast<Use>(i)), now_[i]);
    text += " in all " + std::to_string(all_) + ". ZeRO, offload and checkpointing need less.";
    throw Failure(text, Failure::kBadUsage);
  }
  void* memory = nullptr;
  if (is_sent(use))
    value_of(collectives::detail::result(coll_mem_alloc(&memory, bytes)));
  else
    memory = take_private(bytes, use);
  const std::size_t i = index(use);
  all_ += bytes;
  now_[i] += bytes;
  peak_[i] = std::max(peak_[i], now_[i]);
  peak_of_all_ = std::max(peak_of_all_, all_);
  return memory;
}

void Arena::free(void* memory, std::size_t bytes, Use use) {
  if (is_sent(use))
    coll_mem_free(memory);
  else
    munmap(memory, std::max<std::size_t>(bytes, 1));
  all_ -= bytes;
  now_[index(use)] -= bytes;
}

void Arena::forget_peaks() {
  peak_ = now_;
  peak_of_all_ = all_;
}

}  // namespace training
