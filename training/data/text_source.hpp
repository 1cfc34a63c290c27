// SPDX-License-Identifier: Apache-2.0
// Two sources of one text: windows at random positions, and lines (of the Bible: verses) as
// examples of unequal length.
#pragma once
#include <memory>

#include "draw.hpp"
#include "source.hpp"
#include "text.hpp"

namespace training {

/// Sequences are tokens + 1 characters at random positions: the inputs are the first, the targets
/// the last `tokens` of them. There is no epoch. Validation is one pass over its part of the text.
/// Throws Failure if a part is too short for a sequence.
std::unique_ptr<Source> text_source(Text text, const Draw& draw);

/// A sequence is a line: the end of the line before it, and its own characters up to its end, each
/// a target. What is longer than `tokens` is cut; behind the end, targets are -1. A line is for
/// training where its first character is. Throws Failure if a part has no line.
std::unique_ptr<Source> line_source(Text text, const Draw& draw);

}  // namespace training
