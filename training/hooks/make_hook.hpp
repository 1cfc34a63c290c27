// SPDX-License-Identifier: Apache-2.0
// Communication hooks by name.
#pragma once
#include <memory>
#include <string_view>

#include "../memory/arena.hpp"
#include "../parallel/ddp.hpp"

namespace training {

/// The names, for a person.
inline constexpr const char* kHookNames =
    "bf16, f16, int8, powersgd:R or powersgd:R:PLAIN (rank R; the first PLAIN steps, 10 unless "
    "told, "
    "are not compressed), topk or topk:X% (1 % unless told)";

/// Throws Failure if `text` names no hook, and says what does. `arena` must outlive the hook.
std::unique_ptr<Hook> make_hook(std::string_view text, Arena& arena);

}  // namespace training
