// SPDX-License-Identifier: Apache-2.0
// Random words, and proofs that a key is known without showing it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace coll {

inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kProofBytes = 32;

/// Bytes that nobody can guess, from the operating system.
Result<std::string> random_bytes(std::size_t count);

/// HMAC-SHA256 of `message` under `key`, 32 bytes.
std::string prove(std::string_view key, std::string_view message);
/// Compares in a time that does not depend on where they differ.
bool same_proof(std::string_view a, std::string_view b);

std::string to_hex(std::string_view bytes);
/// Empty if `text` is no hexadecimal text of whole bytes.
std::string from_hex(std::string_view text);

}  // namespace coll
