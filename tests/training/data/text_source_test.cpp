// SPDX-License-Identifier: Apache-2.0
// Windows of a text: what training and validation see of it.
#include "data/text_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "micro_batches.hpp"
#include "test_seed.hpp"

namespace training {
namespace text_source_test {

using testing::HasSubstr;

constexpr std::size_t kTokens = 8, kSequences = 4;
const Draw kDraw{.seed = 5, .sequences = kSequences, .tokens = kTokens};

/// No window of it comes twice: it counts, in digits of its own.
std::string counting_text(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(100000 + i) + ' ';
  return text.substr(0, size);
}

/// The characters of a sequence, the last target too.
std::string sequence_of(const Text& text, const MicroBatch& batch, std::size_t sequence) {
  std::string characters;
  const auto character = [&](std::int32_t symbol) {
    return text.alphabet.at(static_cast<std::size_t>(symbol));
  };
  for (std::size_t t = 0; t < kTokens; ++t) {
    const std::size_t at = sequence * kTokens + t;
    if (batch.targets[at] < 0) continue;
    if (characters.empty()) characters += character(batch.inputs[at]);
    EXPECT_EQ(characters.back(), character(batch.inputs[at])) << "the target before";
    characters += character(batch.targets[at]);
  }
  return characters;
}

TEST(Text, NumbersTheBytesThatOccur) {
  const Text text = text_of("few", std::string("b\xff\0b a", 6));
  EXPECT_EQ(text.alphabet, std::string("\0 ab\xff", 5));
  EXPECT_EQ(text.symbols, (std::vector<std::uint8_t>{3, 4, 0, 3, 1, 2}));
}

TEST(TextSource, TrainingSeesItsPartOnlyAndAllOfIt) {
  const std::string characters = counting_text(200);
  const Text text = text_of("counting", characters);
  const auto source = text_source(text, kDraw);
  std::set<std::size_t> positions;
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const MicroBatch batch = training_batch(*source, number);
    ASSERT_EQ(batch.rows(), kSequences * kTokens);
    for (std::size_t s = 0; s < kSequences; ++s) {
      const std::string window = sequence_of(text, batch, s);
      ASSERT_EQ(window.size(), kTokens + 1);
      const std::size_t at = characters.find(window);
      ASSERT_NE(at, std::string::npos) << window;
      ASSERT_LE(at + window.size(), text.training());
      positions.insert(at);
    }
  }
  EXPECT_EQ(positions.size(), text.training() - kTokens) << "every position occurs";
}

TEST(TextSource, ValidationHasEachTargetOfItsPartOnce) {
  for (const std::size_t size : {200U, 500U, 503U, 510U, 1000U}) {
    const std::string characters = counting_text(size);
    const Text text = text_of("counting", characters);
    const auto source = text_source(text, kDraw);
    std::size_t targets = 0;
    std::set<std::string> windows;
    for (std::uint64_t number = 0; number < source->validations(); ++number) {
      const MicroBatch batch = validation_batch(*source, number);
      targets += batch.rows();
      for (std::size_t s = 0; s < kSequences; ++s) {
        const std::string window = sequence_of(text, batch, s);
        if (window.empty()) continue;
        EXPECT_GE(characters.rfind(window), text.training()) << window;
        EXPECT_TRUE(windows.insert(window).second) << window << " again";
      }
    }
    EXPECT_EQ(targets, size - text.training() - 1);
  }
}

TEST(TextSource, RefusesATextThatIsTooShort) {
  EXPECT_NO_THROW(text_source(text_of("short", counting_text(90)), kDraw));
  EXPECT_THAT(failure_of([] { text_source(text_of("short", counting_text(80)), kDraw); }),
              HasSubstr("too few for a sequence"));
}

TEST(TextSource, OfTheBibleHasTheKnownSize) {
  if (std::system("command -v bible >/dev/null") != 0)
    GTEST_SKIP() << "Debian's packages bible-kjv and bible-kjv-text are not installed";
  const Text text = bible_text();
  EXPECT_EQ(text.symbols.size(), 4137850U);
  EXPECT_EQ(text.alphabet.size(), 63U);
  std::string begin;
  for (std::size_t i = 0; i < 55; ++i) begin += text.alphabet[text.symbols[i]];
  EXPECT_EQ(begin, "In the beginning God created the heaven and the earth.\n");
  EXPECT_EQ(text.alphabet.substr(0, 2), "\n ");
  const Draw draw{.seed = coll::test::test_seed(), .sequences = 16, .tokens = 64};
  expect_promises("bible", draw, 63);
  expect_same_sequences_in_larger_batches("bible", draw);
  const auto source = open_source("bible", draw);
  EXPECT_EQ(source->validations(), 405U);  // 413,784 targets in windows of 64, 16 at once
  EXPECT_EQ(source->epoch(), 0U);
  EXPECT_TRUE(std::isnan(source->entropy()));
}

}  // namespace text_source_test
}  // namespace training
