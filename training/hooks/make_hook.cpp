// SPDX-License-Identifier: Apache-2.0
// Reads a hook's name and numbers.
#include "make_hook.hpp"

#include <fmt/format.h>

#include <charconv>

#include "half_hook.hpp"
#include "int8_hook.hpp"
#include "power_sgd_hook.hpp"
#include "top_k_hook.hpp"

namespace training {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw Failure(fmt::format("\"{}\" is no communication hook; there are: {}", text, kHookNames),
                Failure::kBadUsage);
}

/// All of `digits` as a number; `text` is the whole name.
template <class Number>
Number number(std::string_view digits, std::string_view text) {
  Number value{};
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) refuse(text);
  return value;
}

}  // namespace

std::unique_ptr<Hook> make_hook(std::string_view text, Arena& arena) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (name == "bf16") return std::make_unique<HalfHook>(Format::bf16, arena);
    if (name == "f16") return std::make_unique<HalfHook>(Format::f16, arena);
    if (name == "int8") return std::make_unique<Int8Hook>(arena);
    if (name == "topk") return std::make_unique<TopKHook>(TopKHook::kShare, arena);
    refuse(text);
  }
  std::string_view rest = text.substr(colon + 1);
  if (name == "powersgd") {
    std::size_t plain_steps = PowerSgdHook::kPlainSteps;
    if (const std::size_t second = rest.find(':'); second != std::string_view::npos) {
      plain_steps = number<std::size_t>(rest.substr(second + 1), text);
      rest = rest.substr(0, second);
    }
    const auto rank = number<std::size_t>(rest, text);
    if (rank == 0) refuse(text);
    return std::make_unique<PowerSgdHook>(rank, plain_steps, arena);
  }
  if (name == "topk" && rest.ends_with('%')) {
    rest.remove_suffix(1);
    const double share = number<double>(rest, text) / 100;
    if (!(share > 0 && share <= 1)) refuse(text);
    return std::make_unique<TopKHook>(share, arena);
  }
  refuse(text);
}

}  // namespace training
