// SPDX-License-Identifier: Apache-2.0
// Sizes and places of boxes.
#include "topology/picture/picture_boxes.hpp"

#include <algorithm>

namespace coll {

double text_width(const std::string& text, bool title) {
  const double widest = title ? 7.6 : 6.6;  // of a letter on average, sans-serif at 11 pixels
  const auto letters = std::count_if(text.begin(), text.end(), [](char each) {
    return (static_cast<unsigned char>(each) & 0xc0) != 0x80;  // UTF-8: not the rest of a letter
  });
  return static_cast<double>(letters) * widest;
}

BoxTree::Size BoxTree::rows_of(std::size_t columns) const {
  Size all;
  for (std::size_t at = 0; at < children_.size(); at += columns) {
    Size row;
    for (std::size_t each = at; each < std::min(at + columns, children_.size()); ++each) {
      row.width += children_[each].width() + (each > at ? kGap : 0);
      row.height = std::max(row.height, children_[each].height());
    }
    all.width = std::max(all.width, row.width);
    all.height += row.height + (at > 0 ? kGap : 0);
  }
  return all;
}

void BoxTree::measure() {
  for (BoxTree& child : children_) child.measure();
  constexpr double kBroad = 1.8;  // width by height that reads well
  Size inner;
  double best = 0;
  for (std::size_t columns = 1; columns <= children_.size(); ++columns) {
    const Size size = rows_of(columns);
    const double badness = std::max(size.width, kBroad * size.height);
    if (columns > 1 && badness >= best) continue;
    best = badness;
    inner = size;
    columns_ = columns;
  }
  width_ = std::max(inner.width, free_width_);
  for (std::size_t line = 0; line < text_.size(); ++line)
    width_ = std::max(width_, text_width(text_[line], line == 0));
  width_ += 2 * kGap;
  height_ = kTextHeight * static_cast<double>(text_.size()) + 2 * kGap;
  for (const double part : {inner.height, free_height_})
    if (part > 0) height_ += part + (text_.empty() ? 0 : kGap / 2);
}

int BoxTree::place(Picture& picture, double x, double y, int parent) const {
  const int own = static_cast<int>(picture.boxes.size());
  picture.boxes.push_back({kind_, parent, text_, x, y, width_, height_});
  place_children(
      picture, x + kGap,
      y + kGap + kTextHeight * static_cast<double>(text_.size()) + (text_.empty() ? 0 : kGap / 2),
      own);
  return own;
}

void BoxTree::place_children(Picture& picture, double x, double y, int parent) const {
  for (std::size_t at = 0; at < children_.size(); at += columns_) {
    double left = x, height = 0;
    for (std::size_t each = at; each < std::min(at + columns_, children_.size()); ++each) {
      children_[each].place(picture, left, y, parent);
      left += children_[each].width() + kGap;
      height = std::max(height, children_[each].height());
    }
    y += height + kGap;
  }
}

}  // namespace coll
