// SPDX-License-Identifier: Apache-2.0
// The machine as a picture: boxes in boxes, and lines.
#pragma once
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// What is laid out, in pixels from the top left corner; a test holds it to its promises: a box
/// lies inside of its parent below the parent's text, siblings do not touch, texts fit.
struct Picture {
  struct Box {
    NodeKind kind = NodeKind::host;
    int parent = -1;                ///< a smaller place in `boxes`; -1: on the paper
    std::vector<std::string> text;  ///< lines at the top
    double x = 0, y = 0, width = 0, height = 0;
  };
  struct Line {
    double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
    LinkKind kind = LinkKind::nvlink;
    double strokes = 1;  ///< width, 1 for a single link
  };
  struct Dot {
    double x = 0, y = 0, radius = 0;
    NodeKind kind = NodeKind::gpu;
    std::string text;
  };
  struct Text {
    double x = 0, y = 0;
    std::string text;
  };
  std::vector<Box> boxes;
  std::vector<Line> lines;
  std::vector<Dot> dots;
  std::vector<Text> texts;
  double width = 0, height = 0;
};

/// How wide a text is at most, in pixels, in the picture's font; a title, the first line, is bold.
double text_width(const std::string& text, bool title = false);
inline constexpr double kTextHeight = 15;

/// Hosts, with equal ones drawn once and counted, and the network switches above them, level by
/// level. Cores and caches are told in words.
Picture draw(const Topology& topology);

/// As SVG: text stays text, no scripts; readable on light and on dark paper.
std::string to_svg(const Picture& picture);

}  // namespace coll
