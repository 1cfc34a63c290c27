// SPDX-License-Identifier: Apache-2.0
// Numbers and names as people read them, and as files may hold them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace training {

/// Three to four digits and a unit: "12.3k", "4.50M", "0.0123", "-" for what is not finite.
std::string short_number(double value);
std::string bytes_text(double bytes);  ///< "512 B", "1.50 MiB"
std::string duration_text(
    double seconds);  ///< "850 us", "12.3 ms", "4.56 s", "3 min 20 s", "2 h 5 min"
std::string percent_text(double share);  ///< 0.123: "12.3 %"

/// The text in UTF-8 without control characters; what is no UTF-8 becomes U+FFFD.
std::string clean(std::string_view text);
/// Cleaned, and with `&`, `<`, `>` and quotes as XML and HTML write them.
std::string xml_escaped(std::string_view text);
/// Cleaned, and not longer than that many characters: "…" ends what was cut.
std::string shortened(std::string_view text, std::size_t characters);

}  // namespace training
