// SPDX-License-Identifier: Apache-2.0
// Writes a picture of boxes and lines as SVG.
#include <iomanip>
#include <sstream>

#include "topology/picture/picture.hpp"

namespace coll {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char each : text) {
    if (each == '&')
      out += "&amp;";
    else if (each == '<')
      out += "&lt;";
    else
      out += each >= ' ' && each <= '~' ? each : '?';  // names from firmware: any bytes
  }
  return out;
}

/// Okabe and Ito's colours, told apart also without red and green; grey for what holds others.
const char* class_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::gpu:
      return "gpu";
    case NodeKind::nic:
      return "nic";
    case NodeKind::numa:
      return "numa";
    case NodeKind::pci_switch:
    case NodeKind::pci_port:
    case NodeKind::host_bridge:
      return "pci";
    case NodeKind::network_switch:
      return "net";
    case NodeKind::link_switch:
      return "link";
    default:
      return "part";
  }
}

constexpr const char* kStyle = R"(<style>
text { font: 11px sans-serif; fill: #222 }
.first { font-weight: bold }
.middle { text-anchor: middle }
rect, circle { fill-opacity: 0.14; stroke-width: 1 }
.part { fill: #808080; stroke: #808080; fill-opacity: 0.06 }
.pci { fill: #808080; stroke: #808080; stroke-dasharray: 4 3 }
.numa { fill: #e69f00; stroke: #e69f00 }
.gpu { fill: #009e73; stroke: #009e73 }
.nic { fill: #0072b2; stroke: #0072b2 }
.net { fill: #56b4e9; stroke: #56b4e9 }
.link { fill: #d55e00; stroke: #d55e00 }
.nvlink, .xgmi { stroke: #d55e00 }
.network { stroke: #56b4e9 }
circle { fill-opacity: 1 }
circle.gpu { fill: #d9f0ea } circle.link { fill: #f9e6d9 }
.dot { fill: #222 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .dot { fill: #222 } }
</style>
)";

}  // namespace

std::string to_svg(const Picture& picture) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1);
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='" << picture.width << "' height='"
      << picture.height << "' viewBox='0 0 " << picture.width << ' ' << picture.height << "'>\n"
      << kStyle;
  const auto write = [&](const char* classes, double x, double y, const std::string& text) {
    out << "<text" << classes << " x='" << x << "' y='" << y << "'>" << escaped(text)
        << "</text>\n";
  };
  for (const Picture::Box& box : picture.boxes) {
    out << "<rect class='" << class_of(box.kind) << "' x='" << box.x << "' y='" << box.y
        << "' width='" << box.width << "' height='" << box.height << "' rx='3'/>\n";
    for (std::size_t line = 0; line < box.text.size(); ++line)
      write(line == 0 ? " class='first'" : "", box.x + 8,
            box.y + 4 + kTextHeight * static_cast<double>(line + 1), box.text[line]);
  }
  for (const Picture::Line& line : picture.lines)
    out << "<line class='" << name_of(line.kind) << "' x1='" << line.x1 << "' y1='" << line.y1
        << "' x2='" << line.x2 << "' y2='" << line.y2 << "' stroke-width='" << line.strokes
        << "'/>\n";
  for (const Picture::Dot& dot : picture.dots) {
    out << "<circle class='" << class_of(dot.kind) << "' cx='" << dot.x << "' cy='" << dot.y
        << "' r='" << dot.radius << "'/>\n";
    write(" class='dot middle'", dot.x, dot.y + 4, dot.text);
  }
  for (const Picture::Text& text : picture.texts) write("", text.x, text.y, text.text);
  out << "</svg>\n";
  return out.str();
}

}  // namespace coll
