// SPDX-License-Identifier: Apache-2.0
// One pass of many threads over memory: which thread takes which elements, and how they travel.
#pragma once
#include <cstdint>

#include "reduce/device/element_steps.cuh"
#include "reduce/device/reduce_arguments.hpp"

namespace coll::reduce::device {

inline constexpr unsigned kVectorBytes = 16;  // the widest access that every device has

/// As many elements as one access takes.
template <class Element>
struct alignas(kVectorBytes) Packed {
  static constexpr unsigned kCount = kVectorBytes / sizeof(Element);
  Element elements[kCount];
};

/// Of a pointer that is aligned to the size of T.
template <class T>
__device__ T load(const unsigned char* from) {
  T value;
  __builtin_memcpy(&value, __builtin_assume_aligned(from, sizeof(T)), sizeof(T));
  return value;
}
template <class T>
__device__ void store(unsigned char* to, const T& value) {
  __builtin_memcpy(__builtin_assume_aligned(to, sizeof(T)), &value, sizeof(T));
}

/// Of any pointer: byte by byte, since a device cannot read a word across its alignment.
template <class T>
__device__ T load_bytes(const unsigned char* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
__device__ void store_bytes(unsigned char* to, const T& value) {
  __builtin_memcpy(to, &value, sizeof(T));
}

/// Where a pass reads and writes; `copy` may be null, and `right` where a pass has one operand.
struct Places {
  unsigned char* into;
  unsigned char* copy;
  const unsigned char* left;
  const unsigned char* right;
};

/// The threads that share a pass: this one's place among them, and how many they are.
struct Team {
  std::uint64_t first, stride;
};
__device__ inline Team whole_grid() {
  return {std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x,
          std::uint64_t{gridDim.x} * blockDim.x};
}

/// Puts f(left[i], right[i]) to all of `count` elements, or f(left[i]) if there is no right. Each
/// thread has `kBatch` vectors on their way at once: few threads need that to fill a link.
template <class Element, unsigned kBatch = 1, class F>
__device__ void for_each_element(const Places& p, std::uint64_t count, const Team& team, F f) {
  constexpr unsigned kSize = sizeof(Element), kCount = Packed<Element>::kCount;
  constexpr bool kTwo = requires(Element e) {
    f(e, e);
  };
  const auto address = [](const unsigned char* at) { return reinterpret_cast<std::uintptr_t>(at); };
  const std::uintptr_t start = address(p.into);
  std::uintptr_t differ = start ^ address(p.left);
  if (kTwo) differ |= start ^ address(p.right);
  if (p.copy != nullptr) differ |= start ^ address(p.copy);
  const bool aligned = ((start | differ) & (kSize - 1)) == 0;

  // Single elements up to the first vector, and after the last.
  std::uint64_t head = 0, vectors = 0;
  if (aligned && (differ & (kVectorBytes - 1)) == 0) {
    head = ((0 - start) & (kVectorBytes - 1)) / kSize;
    head = head < count ? head : count;
    vectors = (count - head) / kCount;
  }
  const std::uint64_t first = team.first, stride = team.stride;

  const auto take = [&]<unsigned kVectors>(std::uint64_t v) {
    Packed<Element> left[kVectors];
    [[maybe_unused]] Packed<Element> right[kVectors];
    const auto at = [&](unsigned n) { return head * kSize + (v + n * stride) * kVectorBytes; };
    COLL_UNROLL
    for (unsigned n = 0; n < kVectors; ++n) {
      left[n] = load<Packed<Element>>(p.left + at(n));
      if constexpr (kTwo) right[n] = load<Packed<Element>>(p.right + at(n));
    }
    COLL_UNROLL
    for (unsigned n = 0; n < kVectors; ++n) {
      COLL_UNROLL
      for (unsigned i = 0; i < kCount; ++i) {
        if constexpr (kTwo)
          left[n].elements[i] = f(left[n].elements[i], right[n].elements[i]);
        else
          left[n].elements[i] = f(left[n].elements[i]);
      }
      store(p.into + at(n), left[n]);
      if (p.copy != nullptr) store(p.copy + at(n), left[n]);
    }
  };
  std::uint64_t v = first;
  if constexpr (kBatch > 1) {
    for (; v + (kBatch - 1) * stride < vectors; v += kBatch * stride)
      take.template operator()<kBatch>(v);
  }
  for (; v < vectors; v += stride) take.template operator()<1>(v);

  // Two loops: of one that asks `aligned`, compilers make a loop over bytes.
  const auto single = [&](std::uint64_t s, auto get, auto put) {
    const std::uint64_t at = (s < head ? s : s + vectors * kCount) * kSize;
    Element result = get(p.left + at);
    if constexpr (kTwo)
      result = f(result, get(p.right + at));
    else
      result = f(result);
    put(p.into + at, result);
    if (p.copy != nullptr) put(p.copy + at, result);
  };
  const std::uint64_t singles = count - vectors * kCount;
  if (aligned) {
    for (std::uint64_t s = first; s < singles; s += stride)
      single(s, load<Element>, store<Element>);
  } else if constexpr (kSize > 1) {
    for (std::uint64_t s = first; s < singles; s += stride)
      single(s, load_bytes<Element>, store_bytes<Element>);
  }
}

/// One pass of the team over the elements of T.
template <ReduceOp op, class T, unsigned kBatch = 1>
__device__ void reduce_by_team(const ReduceArguments& a, const Team& team) {
  using S = ElementStep<op, T>;
  using Element = typename S::Element;
  const std::uint64_t ranks = a.ranks;
  for_each_element<Element, kBatch>(
      {static_cast<unsigned char*>(a.into), static_cast<unsigned char*>(a.copy),
       static_cast<const unsigned char*>(a.left), static_cast<const unsigned char*>(a.right)},
      a.count * S::kParts, team, [ranks](Element x, Element y) { return S::apply(x, y, ranks); });
}

/// The body of coll_OP_TYPE.
template <ReduceOp op, class T>
__device__ void reduce_elements(const ReduceArguments& a) {
  reduce_by_team<op, T>(a, whole_grid());
}

/// The body of coll_scale_TYPE.
template <class T>
__device__ void scale_elements(const ScaleArguments& a) {
  using S = ElementStep<ReduceOp::prod, T>;
  using Element = typename S::Element;
  const auto* late = static_cast<const unsigned char*>(a.late_factor);
  const auto factor = load_bytes<Element>(late != nullptr ? late : a.factor);
  for_each_element<Element>({static_cast<unsigned char*>(a.into), nullptr,
                             static_cast<const unsigned char*>(a.input), nullptr},
                            a.count, whole_grid(),
                            [factor](Element x) { return S::apply(x, factor, 1); });
}

}  // namespace coll::reduce::device
