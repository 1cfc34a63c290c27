// SPDX-License-Identifier: Apache-2.0
// Control messages, byte by byte.
#include "rendezvous/control_message.hpp"

namespace coll {

MessageWriter& MessageWriter::number(std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  return *this;
}

MessageWriter& MessageWriter::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view bytes) {
  return u32(static_cast<std::uint32_t>(bytes.size())).raw(bytes);
}

MessageWriter& MessageWriter::failure(const Failure& value) {
  return u8(static_cast<std::uint8_t>(value.code))
      .rank(value.rank)
      .u32(static_cast<std::uint32_t>(value.error))
      .text(value.what)
      .text(value.hint)
      .text(value.call.text)
      .u64(value.call.sequence)
      .u8(static_cast<std::uint8_t>(value.call.collective))
      .text(value.where);
}

std::uint64_t MessageReader::number(std::size_t size) {
  const std::string_view bytes = raw(size);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

std::string_view MessageReader::raw(std::size_t size) {
  if (!good_ || left_.size() < size) {
    good_ = false;
    return {};
  }
  const std::string_view bytes = left_.substr(0, size);
  left_.remove_prefix(size);
  return bytes;
}

std::string MessageReader::text() {
  const std::size_t size = u32();
  return std::string(raw(size));
}

Failure MessageReader::failure() {
  Failure value;
  const std::uint8_t code = u8();
  value.rank = rank();
  value.error = static_cast<int>(u32());
  value.what = text();
  value.hint = text();
  value.call.text = text();
  value.call.sequence = u64();
  const std::uint8_t collective = u8();
  value.where = text();
  if (code <= static_cast<std::uint8_t>(Code::in_progress) ||
      code > static_cast<std::uint8_t>(Code::internal) || collective >= kCollectives) {
    good_ = false;
  }
  value.code = good_ ? static_cast<Code>(code) : Code::internal;
  if (good_) value.call.collective = static_cast<Collective>(collective);
  return value;
}

}  // namespace coll
