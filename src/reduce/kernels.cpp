// SPDX-License-Identifier: Apache-2.0
// Loops and table, compiled once per instruction set.
//
// The build defines COLL_REDUCE_ISA as the namespace (baseline, neon, avx2 …) and passes the
// matching compiler options; -ffp-contract=off keeps the bits the same everywhere.
#include <tuple>
#include <utility>

#include "base/copy_bytes.hpp"
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
  explicit CopyPass(size_t) {}
  template <size_t step>
  COLL_INLINE auto apply(const std::byte* a, const std::byte*) const {
    return load<step>(a);
  }
};

/// Whether there is a second sink, and how it is stored.
enum class Second { none, cached, streaming };

/// Where one call reads and writes; `out2` is null where there is one sink.
struct Operands {
  std::byte* out;
  std::byte* out2;
  const std::byte* a;
  const std::byte* b;
};

/// From this many bytes on, aligning the stores pays for one more register at the start.
constexpr size_t kAlignFrom = 16 * kWidth;
constexpr size_t kLine = 64;  ///< bytes of a cache line

/// `step` to 2 * step - 1 bytes as two pieces that overlap, or fewer by recursion. Both are
/// computed before either is stored, since `out` may be `a` or `b`.
template <size_t step, class P>
COLL_INLINE void few(const P& pass, Operands o, size_t bytes) {
  if (bytes >= step) {
    const size_t last = bytes - step;
    const auto x = pass.template apply<step>(o.a, o.b);
    const auto y = pass.template apply<step>(o.a + last, o.b + last);
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

/// Its six arguments travel in registers: a call for one element costs a few nanoseconds.
template <class P>
[[gnu::noinline]] void less_than_a_register(void* out, void* out2, const void* a, const void* b,
                                            size_t bytes, size_t ranks) {
  few<kWidth / 2>(P(ranks),
                  {static_cast<std::byte*>(out), static_cast<std::byte*>(out2),
                   static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)},
                  bytes);
}

template <Store how>
COLL_INLINE void put(std::byte* to, Raw<kWidth> value) {
  if constexpr (how == Store::streaming)
    stream(to, value);
  else
    store<kWidth>(to, value);
}

/// From byte `i` of the second sink on, if there is one.
template <Second second>
COLL_INLINE void put_second(const Operands& o, size_t i, Raw<kWidth> value) {
  if constexpr (second != Second::none)
    put<second == Second::streaming ? Store::streaming : Store::cached>(o.out2 + i, value);
}

/// Two registers' worth from byte `i` on. Both to `out` before both to `out2`: a core joins stores
/// that follow each other into one line, and stores by turns to two lines take twice as long.
template <class P, Store how, Second second>
COLL_INLINE void two(const P& pass, Operands o, size_t i) {
  Raw<kWidth> x, y;
  if constexpr (Takes<P>::kTwice) {
    using Format = typename P::Number;
    const Two r = pass.apply_twice(o.a + i, o.b + i);
    if constexpr (how == Store::cached && second == Second::none) {
      store_packed(Format{}, o.out + i, r.first);
      store_packed(Format{}, o.out + i + kWidth, r.second);
      return;
    }
    x = pack<kWidth>(Format{}, r.first);
    y = pack<kWidth>(Format{}, r.second);
  } else {
    x = pass.template apply<kWidth>(o.a + i, o.b + i);
    y = pass.template apply<kWidth>(o.a + i + kWidth, o.b + i + kWidth);
  }
  put<how>(o.out + i, x);
  put<how>(o.out + i + kWidth, y);
  put_second<second>(o, i, x);
  put_second<second>(o, i + kWidth, y);
}

/// A register's worth of bytes or more.
template <class P, Store how, Second second>
[[gnu::noinline]] void many(void* out, void* out2, const void* a, const void* b, size_t bytes,
                            size_t ranks) {
  const P pass(ranks);
  constexpr bool both = second != Second::none;
  const Operands o{static_cast<std::byte*>(out), static_cast<std::byte*>(out2),
                   static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
  const auto at = [&](size_t i) __attribute__((always_inline)) {
    return pass.template apply<kWidth>(o.a + i, o.b + i);
  };
  const auto put_both = [&](size_t i, Raw<kWidth> value) __attribute__((always_inline)) {
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
    if constexpr (second == Second::streaming) {
      if (reinterpret_cast<std::uintptr_t>(o.out2 + skew) % kWidth != 0)
        return many<P, how, Second::cached>(out, out2, a, b, bytes, ranks);
    }
    if (skew % sizeof(typename P::Element) == 0) {
      const auto first = at(0);
      const auto put_aligned = [&]() __attribute__((always_inline)) {
        const auto value = at(i);
        put<how>(o.out + i, value);
        put_second<second>(o, i, value);
      };
      i = skew;
      constexpr bool kIsLine = 2 * kWidth == kLine;
      if constexpr (Takes<P>::kTwice || (both && kIsLine)) {
        if (kIsLine && reinterpret_cast<std::uintptr_t>(o.out + i) % kLine != 0) {
          put_aligned();
          i += kWidth;
        }
        for (; i + kWidth < end; i += 2 * kWidth) two<P, how, second>(pass, o, i);
      }
      for (; i < end; i += kWidth) put_aligned();
      if constexpr (how == Store::streaming) stream_end();
      put_both(0, first);
      put_both(end, last);
      return;
    }
  }
  for (; i < end; i += kWidth) put_both(i, at(i));
  put_both(end, last);
}

template <class P, Store how, Second second>
COLL_INLINE void run(void* out, void* out2, const void* a, const void* b, size_t bytes,
                     size_t ranks) {
  if (bytes < kWidth) return less_than_a_register<P>(out, out2, a, b, bytes, ranks);
  using ByProduct = typename Takes<P>::ByProduct;
  if constexpr (!std::is_void_v<ByProduct>)
    if ((ranks & (ranks - 1)) == 0)
      return many<ByProduct, how, second>(out, out2, a, b, bytes, ranks);
  many<P, how, second>(out, out2, a, b, bytes, ranks);
}

// ---- what the table points to ----

constexpr Store kCached = Store::cached;
constexpr Store kPast = kCanStream ? Store::streaming : Store::cached;
constexpr Second kSecondPast = kCanStream ? Second::streaming : Second::cached;

template <class U>
COLL_INLINE size_t argument(size_t ranks) {
  return U::kMadeWith == kRanks ? ranks : U::kMadeWith;
}

template <class U, Store how>
void combine(void* out, const void* a, const void* b, size_t count, size_t ranks) {
  run<typename U::Pass, how, Second::none>(out, nullptr, a, b, count * U::kBytes,
                                           argument<U>(ranks));
}

template <class U, Second second>
void combine_both(void* out, void* out2, const void* a, const void* b, size_t count, size_t ranks) {
  run<typename U::Pass, kPast, second>(out, out2, a, b, count * U::kBytes, argument<U>(ranks));
}

void copy_cached(void* out, const void* in, size_t bytes) {
  copy_bytes(static_cast<std::byte*>(out), static_cast<const std::byte*>(in), bytes);
}

void copy_streaming(void* out, const void* in, size_t bytes) {
  run<CopyPass, Store::streaming, Second::none>(out, nullptr, in, in, bytes, 1);
}

// ---- the table ----

// The order of DataType.
using Elements = std::tuple<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                            std::uint32_t, std::int64_t, std::uint64_t, F16, BF16, float, double,
                            E4M3, E5M2, bool, Complex<float>, Complex<double>>;
static_assert(std::tuple_size_v<Elements> == kDataTypes);

template <ReduceOp op, DataType type>
consteval Kernels entry() {
  if constexpr (has_meaning(op, type)) {
    using T = std::tuple_element_t<static_cast<size_t>(type), Elements>;
    using U = decltype(use < op == ReduceOp::avg ? ReduceOp::sum : op, T > ());
    using End = decltype(use<op, T>());
    static_assert(U::kBytes == size_of(type));
    return {{combine<U, kCached>, combine<U, kPast>},
            {combine_both<U, Second::cached>, combine_both<U, kSecondPast>},
            {combine<End, kCached>, combine<End, kPast>},
            {combine_both<End, Second::cached>, combine_both<End, kSecondPast>}};
  } else {
    return {};
  }
}

template <size_t... i>
consteval Table table_of(const char* name, std::index_sequence<i...>) {
  Table table{name, {}, {{copy_cached, copy_streaming}}};
  ((table.kernels[i / kDataTypes][i % kDataTypes] =
        entry<static_cast<ReduceOp>(i / kDataTypes), static_cast<DataType>(i % kDataTypes)>()),
   ...);
  return table;
}

}  // namespace

constinit const Table COLL_REDUCE_ISA::table =
    table_of(COLL_TEXT(COLL_REDUCE_ISA), std::make_index_sequence<kReduceOps * kDataTypes>{});

}  // namespace coll::reduce
