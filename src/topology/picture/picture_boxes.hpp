// SPDX-License-Identifier: Apache-2.0
// Boxes in boxes, before they have places.
#pragma once
#include "topology/picture/picture.hpp"

namespace coll {

/// A box that finds its size from its text and its children, and then its place from its parent's.
class BoxTree {
 public:
  explicit BoxTree(NodeKind kind, std::vector<std::string> text = {})
      : kind_(kind), text_(std::move(text)) {}

  void say(std::string line) { text_.push_back(std::move(line)); }
  void add(BoxTree child) { children_.push_back(std::move(child)); }
  /// Room for something that is drawn by hand, below the text.
  void keep_free(double width, double height) {
    free_width_ = width;
    free_height_ = height;
  }
  /// Chooses how many children stand beside each other: as broad as a page is, not a strip.
  void measure();
  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  /// Puts this box and all in it on the paper; its number there.
  int place(Picture& picture, double x, double y, int parent) const;
  /// The same without the box itself.
  void place_children(Picture& picture, double x, double y, int parent) const;

  static constexpr double kGap = 8;  ///< between boxes, and from a box to what is in it

 private:
  struct Size {
    double width = 0, height = 0;
  };
  [[nodiscard]] Size rows_of(std::size_t columns) const;

  NodeKind kind_;
  std::vector<std::string> text_;
  std::vector<BoxTree> children_;
  double free_width_ = 0, free_height_ = 0;
  double width_ = 0, height_ = 0;
  std::size_t columns_ = 1;
};

}  // namespace coll
