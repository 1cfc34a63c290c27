// SPDX-License-Identifier: Apache-2.0
// Choosing a source by its name.
#include "open_source.hpp"

#include <fmt/format.h>

#include <charconv>

#include "../memory/failure.hpp"
#include "image_source.hpp"
#include "markov_source.hpp"
#include "text_source.hpp"

namespace training {
namespace {

constexpr std::size_t kChainStates = 16;

[[noreturn]] void refuse(const std::string& description, const std::string& why) {
  throw Failure(fmt::format("--data {}: {}. There are bible, verses, text:PATH, "
                            "fashion-mnist[:FOLDER] and markov[:STATES].",
                            description, why),
                Failure::kBadUsage);
}

void check(const Draw& draw) {
  if (draw.sequences == 0 || draw.tokens == 0 || draw.sequences > kMostRows / draw.tokens) {
    throw Failure(
        fmt::format("A micro-batch of {} sequences with {} tokens cannot be: it has from 1 "
                    "to {} tokens.",
                    draw.sequences, draw.tokens, kMostRows),
        Failure::kBadUsage);
  }
}

}  // namespace

std::unique_ptr<Source> open_source(const std::string& description, const Draw& draw) {
  check(draw);
  const std::size_t colon = description.find(':');
  const std::string name = description.substr(0, colon);
  const bool more = colon != std::string::npos;
  const std::string rest = more ? description.substr(colon + 1) : std::string();
  if (more && rest.empty()) refuse(description, "nothing follows the colon");

  if (name == "bible" && !more) return text_source(bible_text(), draw);
  if (name == "verses" && !more) return line_source(bible_text(), draw);
  if (name == "text" && more) return text_source(file_text(rest), draw);
  if (name == "fashion-mnist") return image_source(more ? rest : kFashionMnist, draw);
  if (name == "markov") {
    std::size_t states = kChainStates;
    if (more) {
      const char* end = rest.data() + rest.size();
      const auto [stop, error] = std::from_chars(rest.data(), end, states);
      if (error != std::errc() || stop != end || states < 2 || states > 256)
        refuse(description, "a Markov source has from 2 to 256 states");
    }
    return markov_source(states, draw);
  }
  refuse(description, "it is not known");
}

}  // namespace training
