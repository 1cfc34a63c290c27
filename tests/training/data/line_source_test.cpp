// SPDX-License-Identifier: Apache-2.0
// Lines of a text as examples of unequal length.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data/balance.hpp"
#include "data/text_source.hpp"
#include "micro_batches.hpp"
#include "test_seed.hpp"

namespace training {
namespace line_source_test {

using testing::HasSubstr;

constexpr std::size_t kTokens = 6, kSequences = 4;
const Draw kDraw{.seed = 5, .sequences = kSequences, .tokens = kTokens};

/// 37 lines of 1 to 9 characters, and empty ones between. A tab is a smaller symbol than a line's
/// end.
std::string lines_text() {
  std::string text;
  for (std::size_t i = 0; i < 37; ++i)
    text += std::string("abcd\tefgh").substr(0, 1 + i % 9) + (i % 5 == 0 ? "\n\n" : "\n");
  return text;
}

/// Targets of a sequence as characters; checks that the inputs are the same, one later.
std::string line_of(const Text& text, const MicroBatch& batch, std::size_t sequence) {
  std::string line;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const std::size_t at = sequence * kTokens + t;
    const auto input = text.alphabet.at(static_cast<std::size_t>(batch.inputs[at]));
    if (batch.targets[at] < 0) continue;
    EXPECT_EQ(line.size(), t) << "padding is behind the end";
    EXPECT_EQ(input, t == 0 ? '\n' : line.back());
    line += text.alphabet.at(static_cast<std::size_t>(batch.targets[at]));
  }
  return line;
}

using Counts = std::map<std::string, std::size_t>;

/// How often each line is in these lines of the text, cut as a sequence cuts it.
Counts counts_of(const std::string& characters, std::size_t begin, std::size_t end) {
  Counts counts;
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t next = characters.find('\n', at) + 1;
    if (next - at > 1 && at >= begin && at < end)
      ++counts[characters.substr(at, std::min(next - at, kTokens))];
    at = next;
  }
  return counts;
}

TEST(LineSource, HasEachLineOnceInAnEpochAndOnceInValidation) {
  const std::string characters = lines_text();
  const Text text = text_of("lines", characters);
  const auto source = line_source(text, kDraw);
  const auto count = [&](std::uint64_t first, std::uint64_t end, auto batch_of) {
    Counts counts;
    for (std::uint64_t number = first; number < end; ++number) {
      const MicroBatch batch = batch_of(*source, number);
      for (std::size_t s = 0; s < kSequences; ++s)
        if (const std::string line = line_of(text, batch, s); !line.empty()) ++counts[line];
    }
    return counts;
  };
  const std::uint64_t epoch = source->epoch();
  EXPECT_EQ(count(0, epoch, training_batch), counts_of(characters, 0, text.training()));
  EXPECT_EQ(count(epoch, 2 * epoch, training_batch), counts_of(characters, 0, text.training()));
  EXPECT_EQ(count(0, source->validations(), validation_batch),
            counts_of(characters, text.training(), characters.size()));
}

TEST(LineSource, RefusesATextWithoutLines) {
  for (const std::string& text :
       {std::string("no end"), std::string(90, 'a') + "\n", std::string(100, '\n'),
        std::string("a\n") + std::string(90, 'a')}) {
    EXPECT_THAT(failure_of([&] { line_source(text_of("bad", text), kDraw); }),
                HasSubstr("too few lines"));
  }
}

TEST(LineSource, OfTheBibleHasItsVerses) {
  if (std::system("command -v bible >/dev/null") != 0)
    GTEST_SKIP() << "Debian's packages bible-kjv and bible-kjv-text are not installed";
  const Draw draw{.seed = coll::test::test_seed(), .sequences = 8, .tokens = 256};
  expect_promises("verses", draw, 63);
  const auto source = open_source("verses", draw);
  EXPECT_THAT(source->describe(), HasSubstr("31102 lines"));
  // Unequal micro-batches are what balance is for: 16 of them on 4 ranks.
  std::vector<std::size_t> rows;
  for (std::uint64_t number = 0; number < 16; ++number) rows.push_back(source->rows(number));
  EXPECT_NE(std::ranges::min(rows), std::ranges::max(rows));
  EXPECT_LE(balance(rows, 4).imbalance(), plain_split(rows, 4).imbalance());
  EXPECT_LT(balance(rows, 4).imbalance(), 1.1);
}

}  // namespace line_source_test
}  // namespace training
