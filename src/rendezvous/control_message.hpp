// SPDX-License-Identifier: Apache-2.0
// The fields of control messages, written and read.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/types.hpp"

namespace coll {

/// Appends fields, little endian.
class MessageWriter {
 public:
  MessageWriter& u8(std::uint8_t value) { return number(value, 1); }
  MessageWriter& u32(std::uint32_t value) { return number(value, 4); }
  MessageWriter& u64(std::uint64_t value) { return number(value, 8); }
  MessageWriter& rank(Rank value) { return u32(static_cast<std::uint32_t>(value)); }
  MessageWriter& raw(std::string_view bytes);   ///< the reader knows how long it is
  MessageWriter& text(std::string_view bytes);  ///< with its length
  MessageWriter& failure(const Failure& value);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  MessageWriter& number(std::uint64_t value, int size);
  std::string bytes_;
};

/// Reads the same fields from what another process sent, trusting nothing: past the end, or where a
/// value makes no sense, everything reads as zero and `whole()` says no. Ask it before using any.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : left_(bytes) {}
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  Rank rank() { return static_cast<Rank>(u32()); }
  std::string_view raw(std::size_t size);
  std::string text();
  Failure failure();
  /// All that is left.
  std::string_view rest() { return raw(left_.size()); }
  /// A value made no sense to the caller.
  void refuse() { good_ = false; }
  /// Nothing was missing so far, and no value senseless.
  [[nodiscard]] bool good() const { return good_; }
  /// Everything read, nothing left over, all values sensible.
  [[nodiscard]] bool whole() const { return good_ && left_.empty(); }

 private:
  std::uint64_t number(std::size_t size);
  std::string_view left_;
  bool good_ = true;
};

}  // namespace coll
