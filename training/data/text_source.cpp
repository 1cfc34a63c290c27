// SPDX-License-Identifier: Apache-2.0
// Windows of a text.
#include "text_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "../math/counter_random.hpp"
#include "../memory/failure.hpp"
#include "example_source.hpp"

namespace training {
namespace {

class TextSource final : public Source {
 public:
  TextSource(Text text, const Draw& draw)
      : text_(std::move(text)),
        shape_{.sequences = draw.sequences, .tokens = draw.tokens, .kinds = text_.alphabet.size()},
        random_(draw.seed, kPositions) {
    const std::size_t least = std::min(text_.training(), text_.symbols.size() - text_.training());
    if (least < draw.tokens + 1) {
      throw Failure(
          fmt::format("{} has {} characters, {} in its smallest part: too few for a sequence of {} "
                      "and one more. "
                      "Use a longer text, or fewer tokens.",
                      text_.name, text_.symbols.size(), least, draw.tokens));
    }
  }

  [[nodiscard]] const Shape& shape() const override { return shape_; }

  void fill(std::uint64_t number, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const override {
    const std::uint64_t positions = text_.training() - shape_.tokens;
    for (std::uint32_t s = 0; s < shape_.sequences; ++s) {
      const RandomWords random = random_(number * shape_.sequences + s, 0, 0);
      put(s, below(positions, random[0], random[1]), shape_.tokens, inputs, targets);
    }
  }
  [[nodiscard]] std::size_t rows(std::uint64_t /*number*/) const override {
    return shape_.targets();
  }
  [[nodiscard]] std::uint64_t epoch() const override { return 0; }

  void fill_validation(std::uint64_t number, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const override {
    std::ranges::fill(inputs, 0);
    std::ranges::fill(targets, -1);
    for (std::size_t s = 0; s < shape_.sequences; ++s) {
      const std::size_t window = validation_place(number, s, validations());
      if (window >= windows()) return;
      const std::size_t at = text_.training() + window * shape_.tokens;
      put(s, at, std::min(shape_.tokens, text_.symbols.size() - 1 - at), inputs, targets);
    }
  }
  [[nodiscard]] std::uint64_t validations() const override {
    return groups_of(windows(), shape_.sequences);
  }

  [[nodiscard]] double entropy() const override { return std::numeric_limits<double>::quiet_NaN(); }
  [[nodiscard]] std::string describe() const override {
    return fmt::format("{}: {} characters of {} kinds, the last {} for validation", text_.name,
                       text_.symbols.size(), shape_.kinds, text_.symbols.size() - text_.training());
  }

 private:
  /// Of validation: its first character is an input only.
  [[nodiscard]] std::size_t windows() const {
    return groups_of(text_.symbols.size() - text_.training() - 1, shape_.tokens);
  }
  void put(std::size_t sequence, std::size_t at, std::size_t count, std::span<std::int32_t> inputs,
           std::span<std::int32_t> targets) const {
    const std::uint8_t* symbols = text_.symbols.data() + at;
    std::copy_n(symbols, count, inputs.data() + sequence * shape_.tokens);
    std::copy_n(symbols + 1, count, targets.data() + sequence * shape_.tokens);
  }

  Text text_;
  Shape shape_;
  CounterRandom random_;
};

}  // namespace

std::unique_ptr<Source> text_source(Text text, const Draw& draw) {
  return std::make_unique<TextSource>(std::move(text), draw);
}

}  // namespace training
