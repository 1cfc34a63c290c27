// SPDX-License-Identifier: Apache-2.0
// CRC32C gives the values that RFC 3720 (appendix B.4) lists.
#include "report/writing/crc32c.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace training {
namespace crc32c_test {

TEST(Crc32c, GivesTheValuesOfTheStandard) {
  std::string rising(32, '\0');
  std::ranges::generate(rising, [byte = '\0']() mutable { return byte++; });
  const std::string falling(rising.rbegin(), rising.rend());
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

}  // namespace crc32c_test
}  // namespace training
