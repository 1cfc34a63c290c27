// SPDX-License-Identifier: Apache-2.0
// Lines of a text as examples: micro-batches with unequal numbers of rows.
#include <fmt/format.h>

#include <algorithm>

#include "../memory/failure.hpp"
#include "example_source.hpp"
#include "text_source.hpp"

namespace training {
namespace {

struct TextLine {
  std::size_t begin = 0, size = 0;  ///< with the '\n' at its end
};

struct Lines {
  std::vector<TextLine> all;
  std::size_t training = 0;  ///< the first of them
};

/// Throws Failure if a part has none. Empty lines are no examples; what has no end is no line.
Lines lines_of(const Text& text) {
  const std::size_t newline = text.alphabet.find('\n');
  Lines lines;
  for (auto at = text.symbols.begin();;) {
    const auto end = std::find(at, text.symbols.end(), newline);
    if (end == text.symbols.end()) break;
    const auto begin = static_cast<std::size_t>(at - text.symbols.begin());
    const auto size = static_cast<std::size_t>(end - at) + 1;
    if (size > 1) {
      lines.all.push_back({begin, size});
      if (begin < text.training()) lines.training = lines.all.size();
    }
    at = end + 1;
  }
  if (lines.training == 0 || lines.training == lines.all.size())
    throw Failure(fmt::format("{} has too few lines for training and validation.", text.name));
  return lines;
}

class LineSource final : public ExampleSource {
 public:
  LineSource(Text text, Lines lines, const Draw& draw)
      : ExampleSource(
            {.sequences = draw.sequences, .tokens = draw.tokens, .kinds = text.alphabet.size()},
            draw.seed, lines.training, lines.all.size() - lines.training),
        text_(std::move(text)),
        lines_(std::move(lines)),
        newline_(static_cast<std::int32_t>(text_.alphabet.find('\n'))) {}

  [[nodiscard]] std::string describe() const override {
    return fmt::format("{}: {} lines with characters of {} kinds, the last {} for validation",
                       text_.name, lines_.all.size(), shape().kinds,
                       lines_.all.size() - lines_.training);
  }

 private:
  [[nodiscard]] std::size_t rows_of(std::size_t example) const override {
    return std::min(lines_.all[example].size, shape().tokens);
  }
  void put(std::size_t example, std::span<std::int32_t> inputs,
           std::span<std::int32_t> targets) const override {
    const std::uint8_t* symbols = text_.symbols.data() + lines_.all[example].begin;
    const std::size_t rows = rows_of(example);
    std::copy_n(symbols, rows, targets.begin());
    inputs[0] = newline_;
    std::copy_n(symbols, rows - 1, inputs.begin() + 1);
  }

  Text text_;
  Lines lines_;
  std::int32_t newline_;
};

}  // namespace

std::unique_ptr<Source> line_source(Text text, const Draw& draw) {
  Lines lines = lines_of(text);
  return std::make_unique<LineSource>(std::move(text), std::move(lines), draw);
}

}  // namespace training
