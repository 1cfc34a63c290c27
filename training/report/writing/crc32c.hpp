// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TensorBoard's files. zlib has only
// the CRC of another polynomial. A byte a time: a step's record is a kilobyte.
#pragma once
#include <cstdint>
#include <string_view>

namespace training {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace training
