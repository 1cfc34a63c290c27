// SPDX-License-Identifier: Apache-2.0
// A text as symbols: the bytes that occur in it, numbered in their order. The first nine tenths of
// it, by position, are for training, the rest for validation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace training {

struct Text {
  std::string name;                   ///< for a person
  std::string alphabet;               ///< the byte of each symbol
  std::vector<std::uint8_t> symbols;  ///< of the whole text

  [[nodiscard]] std::size_t training() const { return symbols.size() / 10 * 9; }
};

Text text_of(std::string name, std::string_view characters);

/// The King James Bible, a verse a line without its reference, from Debian's program `bible`.
/// Throws Failure if the program is not there or gives anything else.
Text bible_text();

/// A file. Throws Failure if it cannot be read, is empty or has more than kMostRows bytes.
Text file_text(const std::string& path);

}  // namespace training
