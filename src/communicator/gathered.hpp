// SPDX-License-Identifier: Apache-2.0
// What the ranks of a communicator tell each other over it.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "communicator/communicator.hpp"

namespace coll {

/// A text of at most so many bytes.
template <std::size_t kMostBytes>
struct SentText {
  std::uint32_t bytes = 0;  ///< 0: there is no text, or it is too long
  std::array<char, kMostBytes> text{};

  void set(std::string_view from) {
    if (from.size() > text.size()) return;
    std::ranges::copy(from, text.begin());
    bytes = static_cast<std::uint32_t>(from.size());
  }
  /// "" where there is none, or it makes no sense.
  [[nodiscard]] std::string_view view() const {
    return {text.data(), bytes <= text.size() ? bytes : 0};
  }
};

template <class T>
Request request_of(Collective collective, Rank root, const T* input, T* output) {
  static_assert(std::has_unique_object_representations_v<T>, "no byte is left unset");
  Request request;
  request.call = {0, collective, DataType::uint8, ReduceOp::sum, CallForm::usual, root, sizeof(T)};
  request.input = input;
  request.output = output;
  return request;
}

/// `all` has room for every rank's.
template <class T>
Status gather(Communicator& parent, const T& mine, std::vector<T>& all) {
  return parent.run(request_of(Collective::all_gather, 0, &mine, all.data()));
}

}  // namespace coll
