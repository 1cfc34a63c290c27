// SPDX-License-Identifier: Apache-2.0
// Calls with what goes in and what must come out.
#pragma once
#include <span>

#include "executor_ranks.hpp"
#include "schedule/chunk_map.hpp"

namespace coll::testing {

/// `number`: of the call.
inline std::int64_t input_at(std::size_t rank, std::uint64_t index, std::uint64_t number) {
  return static_cast<std::int64_t>(number * 1'000'000'007 + rank * 1'000'003 + index * 7 + 1);
}

/// What `rank` must have at `index` of its output.
inline std::int64_t expected_at(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count,
                                std::uint64_t index, std::uint64_t number) {
  const auto sum = [&](std::uint64_t at) {
    std::int64_t total = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(spec.ranks); ++r)
      total += input_at(r, at, number);
    return total;
  };
  const auto root = static_cast<std::size_t>(spec.root);
  switch (spec.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return sum(index);
    case Collective::reduce_scatter:
      return sum(rank * count + index);
    case Collective::broadcast:
      return input_at(root, index, number);
    case Collective::scatter:
      return input_at(root, rank * count + index, number);
    case Collective::all_gather:
    case Collective::gather:
      return input_at(index / count, index % count, number);
    case Collective::all_to_all:
      return input_at(index / count, rank * count + index % count, number);
    default:
      return 0;
  }
}

using Elements = std::vector<std::int64_t>;

/// One rank's buffers of a call: of their own, or one inside the other as in_place() has it.
class Buffers {
 public:
  Buffers(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count, bool want_in_place,
          std::uint64_t number = 0)
      : count_(count) {
    const auto self = static_cast<Rank>(rank);
    const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, self);
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, self);
    input_size_ = shape.input * count;
    output_size_ = shape.output * count;
    apart_ = !want_in_place || !place.allowed;
    memory_.resize(apart_ ? input_size_ + output_size_ : std::max(input_size_, output_size_));
    if (apart_) {
      output_at_ = input_size_;
    } else {
      (place.input_inside_output ? input_at_ : output_at_) = place.offset_blocks * count;
    }
    for (std::uint64_t i = 0; i < input_size_; ++i)
      memory_[input_at_ + i] = input_at(rank, i, number);
  }

  /// Of int64, of sums where it reduces.
  CallBinding call(std::uint64_t digest) {
    CallBinding call;
    call.input = reinterpret_cast<const std::byte*>(memory_.data() + input_at_);
    call.output = reinterpret_cast<std::byte*>(memory_.data() + output_at_);
    call.count = count_;
    call.element_bytes = 8;
    call.kernels = &reduce::kernels(ReduceOp::sum, DataType::int64);
    call.op = ReduceOp::sum;
    call.type = DataType::int64;
    call.digest = digest;
    call.apart = apart_;
    return call;
  }
  /// All of it: a call may be made in a copy.
  [[nodiscard]] std::span<std::int64_t> memory() { return memory_; }
  /// The result; the memory is used for something else from now on.
  Elements take() {
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(output_at_);
    Elements result(begin, begin + static_cast<std::ptrdiff_t>(output_size_));
    std::ranges::fill(memory_, -1);
    return result;
  }

 private:
  Elements memory_;
  std::uint64_t count_;
  bool apart_ = true;
  std::uint64_t input_size_ = 0, output_size_ = 0;
  std::uint64_t input_at_ = 0, output_at_ = 0;
};

inline void compare(const Elements& result, const CollectiveSpec& spec, std::size_t rank,
                    std::uint64_t count, std::uint64_t number = 0) {
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], expected_at(spec, rank, count, i, number))
        << "call " << number << " rank " << rank << " element " << i;
  }
}

}  // namespace coll::testing
