// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: values as bytes for the rendezvous' exchange.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace coll {

/// Appends length-prefixed fields. Little-endian hosts only, as all of the wire format is (version
/// in the handshakes).
class WireWriter {
 public:
  WireWriter& put(std::string_view field) {
    const auto length = static_cast<std::uint32_t>(field.size());
    bytes_.append(reinterpret_cast<const char*>(&length), sizeof length).append(field);
    return *this;
  }
  template <class T>
  WireWriter& put_number(T value) {
    return put({reinterpret_cast<const char*>(&value), sizeof value});
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads them back; after a malformed field everything reads as empty and `ok()` is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view get() {
    std::uint32_t length = 0;
    if (bytes_.size() < sizeof length) return spoil();
    std::memcpy(&length, bytes_.data(), sizeof length);
    if (bytes_.size() - sizeof length < length) return spoil();
    const std::string_view field = bytes_.substr(sizeof length, length);
    bytes_.remove_prefix(sizeof length + length);
    return field;
  }
  template <class T>
  T get_number() {
    T value{};
    const std::string_view field = get();
    if (field.size() == sizeof value)
      std::memcpy(&value, field.data(), sizeof value);
    else
      spoil();
    return value;
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view spoil() {
    ok_ = false;
    bytes_ = {};
    return {};
  }
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace coll
