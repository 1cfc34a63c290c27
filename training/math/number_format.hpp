// SPDX-License-Identifier: Apache-2.0
// The formats in which weights and gradients are stored. Arithmetic is in f32; a store rounds to
// the nearest number, ties to the even one (IEEE 754-2019, section 4.3.1; bf16: f32 without its
// lowest 16 bits).
#pragma once
#include <cstddef>
#include <cstdint>

namespace training {

enum class Format : std::uint8_t { f32, bf16, f16 };

constexpr std::size_t bytes_of(Format format) {
  return format == Format::f32 ? 4 : 2;
}
constexpr const char* name_of(Format format) {
  return format == Format::f32 ? "f32" : (format == Format::bf16 ? "bf16" : "f16");
}

/// `count` numbers as f32.
void widen(Format format, std::size_t count, const void* from, float* to);
/// `count` numbers in `format`.
void narrow(Format format, std::size_t count, const float* from, void* to);
/// to += from, each sum rounded to the format.
void add(Format format, std::size_t count, const void* from, void* to);

}  // namespace training
