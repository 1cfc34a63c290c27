// SPDX-License-Identifier: Apache-2.0
// The calls of libcrypto.
#include "sha256.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "../memory/failure.hpp"

namespace training {

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw Failure("OpenSSL does not compute SHA-256: checkpoints need it.");
  return digest;
}

std::string to_hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace training
