// SPDX-License-Identifier: Apache-2.0
// reduce/: the [op][dtype] kernels. This file: loops and table, compiled once per instruction set.
//
// The build defines COLL_REDUCE_ISA as the namespace (baseline, neon, avx2, avx512) and passes the
// matching compiler options; -ffp-contract=off keeps the bits the same everywhere.
#include "reduce/isa.hpp"
#include "reduce/passes.hpp"
#include "reduce/vector.hpp"

#define COLL_TEXT_OF(x) #x
#define COLL_TEXT(x) COLL_TEXT_OF(x)

namespace coll::reduce {
namespace COLL_REDUCE_ISA {
extern const Table table;
}

namespace {

/// Passes the first operand on: a copy.
struct CopyPass {
  using Element = std::byte;
  template <size_t bytes>
  COLL_INLINE Raw<bytes> apply(Raw<bytes> a, Raw<bytes>) const {
    return a;
  }
};

struct Operands {
  std::byte* out;
  std::byte* out2;  // null: one sink
  const std::byte* a;
  const std::byte* b;
};

/// From this many bytes on, aligning the stores pays for one more register at the start.
constexpr size_t kAlignFrom = 16 * kWidth;

/// `step` to 2 * step - 1 bytes as two pieces that overlap, or fewer by recursion. Both are
/// computed before either is stored, since `out` may be `a` or `b`.
template <size_t step, class P>
COLL_INLINE void few(const P& pass, Operands o, size_t bytes) {
  if (bytes >= step) {
    const size_t last = bytes - step;
    const auto x = pass.template apply<(step < 16 ? 16 : step)>(load<step>(o.a), load<step>(o.b));
    const auto y = pass.template apply<(step < 16 ? 16 : step)>(load<step>(o.a + last),
                                                                load<step>(o.b + last));
    store<step>(o.out, x);
    store<step>(o.out + last, y);
    if (o.out2) {
      store<step>(o.out2, x);
      store<step>(o.out2 + last, y);
    }
  } else if constexpr (step > sizeof(typename P::Element)) {
    few<step / 2>(pass, o, bytes);
  }
}

template <class P>
[[gnu::noinline]] void less_than_a_register(const P& pass, Operands o, size_t bytes) {
  few<kWidth / 2>(pass, o, bytes);
}

template <Store how, bool both, class P>
COLL_INLINE void run(const P& pass, Operands o, size_t bytes) {
  if (bytes < kWidth) return less_than_a_register(pass, o, bytes);
  const auto at = [&](size_t i) __attribute__((always_inline)) {
    return pass.template apply<kWidth>(load<kWidth>(o.a + i), load<kWidth>(o.b + i));
  };
  const auto put = [&](size_t i, Raw<kWidth> value) __attribute__((always_inline)) {
    store<kWidth>(o.out + i, value);
    if constexpr (both) store<kWidth>(o.out2 + i, value);
  };
  // The first and the last register overlap their neighbours, so there is no loop over single
  // elements. They are computed before anything is stored and stored after everything else, since
  // `out` may be `a` or `b`.
  const size_t end = bytes - kWidth;
  const auto last = at(end);
  size_t i = 0;
  if (bytes >= kAlignFrom) {
    const size_t skew = -reinterpret_cast<std::uintptr_t>(o.out) % kWidth;
    if (skew % sizeof(typename P::Element) == 0) {
      const auto first = at(0);
      for (i = skew; i < end; i += kWidth) {
        if constexpr (how == Store::streaming) {
          const auto value = at(i);
          stream(o.out + i, value);
          if constexpr (both) store<kWidth>(o.out2 + i, value);
        } else {
          put(i, at(i));
        }
      }
      if constexpr (how == Store::streaming) stream_end();
      put(0, first);
      put(end, last);
      return;
    }
  }
  for (; i < end; i += kWidth) put(i, at(i));
  put(end, last);
}

template <ReduceOp op, class T, Store how>
void combine(void* out, const void* a, const void* b, size_t count, size_t ranks) {
  using P = Pass<op, T>;
  run<how, false>(P(ranks),
                  {static_cast<std::byte*>(out), nullptr, static_cast<const std::byte*>(a),
                   static_cast<const std::byte*>(b)},
                  count * sizeof(typename P::Element));
}

template <ReduceOp op, class T, Store how>
void combine_both(void* out, void* out2, const void* a, const void* b, size_t count, size_t ranks) {
  using P = Pass<op, T>;
  run<how, true>(P(ranks),
                 {static_cast<std::byte*>(out), static_cast<std::byte*>(out2),
                  static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)},
                 count * sizeof(typename P::Element));
}

void copy_cached(void* out, const void* in, size_t bytes) {
  if (bytes) __builtin_memcpy(out, in, bytes);  // the C library's, tuned per machine
}

void copy_streaming(void* out, const void* in, size_t bytes) {
  const auto from = static_cast<const std::byte*>(in);
  run<Store::streaming, false>(CopyPass{}, {static_cast<std::byte*>(out), nullptr, from, from},
                               bytes);
}

template <Store how>
void copy_both(void* out, void* out2, const void* in, size_t bytes) {
  const auto from = static_cast<const std::byte*>(in);
  run<how, true>(CopyPass{},
                 {static_cast<std::byte*>(out), static_cast<std::byte*>(out2), from, from}, bytes);
}

// ---- the table ----

constexpr Store kCached = Store::cached;
constexpr Store kPast = kCanStream ? Store::streaming : Store::cached;

template <ReduceOp op, ReduceOp end, class T>
constexpr Kernels entry = {{combine<op, T, kCached>, combine<op, T, kPast>},
                           {combine_both<op, T, kCached>, combine_both<op, T, kPast>},
                           {combine<end, T, kCached>, combine<end, T, kPast>},
                           {combine_both<end, T, kCached>, combine_both<end, T, kPast>}};

// The order of DataType. Sums and products of integers have the same bits signed and unsigned.
#define COLL_ROW(op, end)                                                                    \
  {                                                                                          \
    entry<op, end, std::int8_t>, entry<op, end, std::uint8_t>, entry<op, end, std::int32_t>, \
        entry<op, end, std::uint32_t>, entry<op, end, std::int64_t>,                         \
        entry<op, end, std::uint64_t>, entry<op, end, F16>, entry<op, end, BF16>,            \
        entry<op, end, float>, entry<op, end, double>                                        \
  }

}  // namespace

// The order of ReduceOp.
constinit const Table COLL_REDUCE_ISA::table = {
    COLL_TEXT(COLL_REDUCE_ISA),
    {COLL_ROW(ReduceOp::sum, ReduceOp::sum), COLL_ROW(ReduceOp::prod, ReduceOp::prod),
     COLL_ROW(ReduceOp::min, ReduceOp::min), COLL_ROW(ReduceOp::max, ReduceOp::max),
     COLL_ROW(ReduceOp::sum, ReduceOp::avg)},
    {{copy_cached, copy_streaming}, {copy_both<kCached>, copy_both<kPast>}}};

}  // namespace coll::reduce
