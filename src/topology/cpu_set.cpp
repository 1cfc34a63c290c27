// SPDX-License-Identifier: Apache-2.0
// A set of processors.
#include "topology/cpu_set.hpp"

#include <algorithm>
#include <bit>

#include "topology/reader_text.hpp"

namespace coll {
namespace {

std::string_view cut_trailing(std::string_view& text, char separator) {
  const std::size_t at = text.rfind(separator);
  const std::string_view last = at == text.npos ? text : text.substr(at + 1);
  text = at == text.npos ? std::string_view{} : text.substr(0, at);
  return last;
}

}  // namespace

std::optional<CpuSet> CpuSet::from_list(std::string_view text) {
  CpuSet set;
  while (!text.empty()) {
    std::string_view part = cut_trailing(text, ',');
    const std::size_t dash = part.find('-');
    const auto first = number<int>(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kLimit) return std::nullopt;
    set |= range(*first, *last);
  }
  return set;
}

std::optional<CpuSet> CpuSet::from_mask(std::string_view text) {
  CpuSet set;
  if (text.empty()) return std::nullopt;
  for (int base = 0; !text.empty(); base += 32) {
    std::string_view word = cut_trailing(text, ',');
    if (word.starts_with("0x")) word.remove_prefix(2);
    const std::optional<std::uint32_t> bits = word.empty() ? 0 : number<std::uint32_t>(word, 16);
    if (!bits || base >= kLimit) return std::nullopt;
    for (std::uint32_t left = *bits; left != 0; left &= left - 1)
      set.add(base + std::countr_zero(left));
  }
  return set;
}

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  for (int each = first; each <= last; ++each) set.add(each);
  return set;
}

void CpuSet::add(int number) {
  if (number < 0 || number >= kLimit) return;
  const auto word = static_cast<std::size_t>(number) / 64;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= std::uint64_t{1} << (number % 64);
}

bool CpuSet::contains(int number) const {
  const auto word = static_cast<std::size_t>(number) / 64;
  return number >= 0 && word < words_.size() && (words_[word] >> (number % 64) & 1) != 0;
}

int CpuSet::count() const {
  int sum = 0;
  for (const std::uint64_t word : words_) sum += std::popcount(word);
  return sum;
}

std::vector<std::int32_t> CpuSet::numbers() const {
  std::vector<std::int32_t> all;
  for (std::size_t word = 0; word < words_.size(); ++word)
    for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1)
      all.push_back(static_cast<std::int32_t>(word) * 64 + std::countr_zero(bits));
  return all;
}

bool CpuSet::intersects(const CpuSet& other) const {
  CpuSet both = *this;
  both &= other;
  return !both.empty();
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (std::size_t word = 0; word < other.words_.size(); ++word) words_[word] |= other.words_[word];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (std::size_t word = 0; word < words_.size(); ++word) words_[word] &= other.words_[word];
  trim();
  return *this;
}

std::string CpuSet::list() const {
  std::string text;
  const std::vector<std::int32_t> all = numbers();
  for (std::size_t at = 0; at < all.size();) {
    std::size_t end = at;
    while (end + 1 < all.size() && all[end + 1] == all[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(all[at]);
    if (end > at) text += '-' + std::to_string(all[end]);
    at = end + 1;
  }
  return text;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace coll
