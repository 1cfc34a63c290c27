// SPDX-License-Identifier: Apache-2.0
// Draws schedules as SVG.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <tuple>

#include "schedule/print.hpp"

namespace coll {
namespace {

/// Told apart by colour-blind eyes too (Okabe and Ito 2008). Lanes beyond the last begin anew.
constexpr std::array<std::string_view, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                   "#e69f00", "#56b4e9", "#000000"};
// All lengths are pixels.
constexpr int kCharacter = 6;    ///< width of a label's character
constexpr int kLaneOffset = 18;  ///< between lanes, downwards
constexpr int kTop = 84;         ///< of the first row
constexpr int kSide = 60;

std::string_view colour(std::size_t lane) {
  return kColours[lane % kColours.size()];
}

std::string short_name(const Operand& operand, std::uint32_t count) {
  constexpr std::array<std::string_view, 4> names{"", "in ", "out ", "tmp "};
  const std::string text = print(operand, count);
  return std::string(names[static_cast<std::size_t>(operand.space)]) +
         text.substr(text.find(' ') + 1);
}

/// What stands at a message, or at a step without one.
std::string label_of(const Step& step) {
  if (step.count == 0) return {};
  if (step.receives() || step.sends()) {
    const Operand& named = step.named();
    return named.present() ? short_name(named, step.count) : "";
  }
  std::string text = short_name(step.from, step.count);
  if (step.with.present()) text += " + " + short_name(step.with, step.count);
  return text + " → " + short_name(step.into, step.count);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

/// A step where it is drawn; times are in halves of a message's way.
struct Mark {
  std::size_t rank, lane;
  Step step;
  int time;
};

/// Runs the schedules on a simple clock: a message takes one row and its sender as long, a local
/// step half a row, receiving nothing. Steps that can never run are left out.
class Clock {
 public:
  explicit Clock(std::span<const Schedule> schedules) {
    for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
      for (std::size_t lane = 0; lane < schedules[rank].lanes.size(); ++lane) {
        lanes_.push_back({rank, lane, &schedules[rank].lanes[lane], 0, {}});
        left_ += schedules[rank].lanes[lane].size();
      }
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (LaneState& lane : lanes_) {
        while (advance(lane)) moved = true;
      }
    }
  }

  [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }
  [[nodiscard]] std::size_t left() const { return left_; }

 private:
  struct LaneState {
    std::size_t rank, lane;
    const Lane* steps;
    int now;
    std::vector<int> done;  ///< time at which each step ended
  };

  bool advance(LaneState& lane) {
    if (lane.done.size() == lane.steps->size()) return false;
    const Step step = (*lane.steps)[lane.done.size()];
    int start = lane.now;
    if (step.wait_lane >= 0) {
      const auto other = std::ranges::find_if(lanes_, [&](const LaneState& l) {
        return l.rank == lane.rank && l.lane == static_cast<std::size_t>(step.wait_lane);
      });
      const auto wait_step = static_cast<std::size_t>(step.wait_step);
      if (other == lanes_.end() || other->done.size() <= wait_step) return false;
      start = std::max(start, other->done[wait_step]);
    }
    if (step.receives()) {
      auto& queue = arriving_[{static_cast<std::size_t>(step.source), lane.rank, lane.lane}];
      if (queue.empty()) return false;
      start = std::max(start, queue.front());
      queue.pop_front();
    }
    marks_.push_back({lane.rank, lane.lane, step, start});
    if (step.sends()) {
      arriving_[{lane.rank, static_cast<std::size_t>(step.target), lane.lane}].push_back(start + 2);
    }
    lane.now = start + (step.sends() ? 2 : step.receives() ? 0 : 1);
    lane.done.push_back(lane.now);
    --left_;
    return true;
  }

  std::vector<LaneState> lanes_;
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::deque<int>> arriving_;
  std::vector<Mark> marks_;
  std::size_t left_ = 0;
};

/// The document, piece by piece.
class Picture {
 public:
  Picture(std::span<const Schedule> schedules, const Clock& clock) : schedules_(schedules) {
    int latest = 0;
    std::size_t message = 6;
    std::size_t local = 0;
    for (const Schedule& schedule : schedules) lanes_ = std::max(lanes_, schedule.lanes.size());
    for (const Mark& mark : clock.marks()) {
      latest = std::max(latest, mark.time + (mark.step.sends() ? 2 : 1));
      const bool between = mark.step.sends() || mark.step.receives();
      std::size_t& widest = between ? message : local;
      widest = std::max(widest, label_of(mark.step).size());
    }
    if (lanes_ > 1) message *= 2;  // two beside each other
    column_ = static_cast<int>(std::max(message, local)) * kCharacter + 30;
    row_ = 54 + static_cast<int>(lanes_ - 1) * kLaneOffset;
    bottom_ = kTop + latest * row_ / 2 + static_cast<int>(lanes_) * kLaneOffset;
    width_ = std::max(2 * kSide + column_ * static_cast<int>(schedules.size()), 420);
    head(clock);
    columns();
    for (const Mark& mark : clock.marks()) arrow(mark);
    for (const Mark& mark : clock.marks()) dot(mark);
    for (const Mark& mark : clock.marks()) label(mark);
    legend();
    text_ += "</svg>\n";
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string number(int value) { return std::to_string(value); }
  [[nodiscard]] int x(std::size_t rank) const {
    return kSide + column_ / 2 + column_ * static_cast<int>(rank);
  }
  [[nodiscard]] int y(int time, std::size_t lane) const {
    return kTop + time * row_ / 2 + static_cast<int>(lane) * kLaneOffset;
  }

  void words(int at_x, int at_y, std::string_view attributes, const std::string& what) {
    text_ += "<text x=\"" + number(at_x) + "\" y=\"" + number(at_y) + "\" " +
             std::string(attributes) + ">" + escaped(what) + "</text>\n";
  }

  void head(const Clock& clock) {
    const Schedule& first = schedules_.front();
    std::string title = first.algorithm + " " + std::string(name_of(first.spec.collective)) + ", " +
                        std::to_string(schedules_.size()) + " ranks";
    if (has_root(first.spec.collective)) title += ", root " + std::to_string(first.spec.root);
    const int height = bottom_ + 40;
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width_) + "\" height=\"" +
            number(height) + "\" viewBox=\"0 0 " + number(width_) + " " + number(height) +
            "\" font-family=\"DejaVu Sans, sans-serif\" font-size=\"10\">\n" + "<title>" +
            escaped(title) + "</title>\n<defs>\n";
    for (std::size_t lane = 0; lane < std::min(lanes_, kColours.size()); ++lane) {
      text_ += "<marker id=\"head" + std::to_string(lane) +
               "\" viewBox=\"0 0 8 8\" refX=\"10\" refY=\"4\" markerWidth=\"7\" "
               "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"" +
               std::string(colour(lane)) + "\"/></marker>\n";
    }
    text_ += "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    words(kSide, 28, "font-size=\"16\" font-weight=\"bold\"", title);
    if (clock.left() > 0) {
      words(kSide, 46, "font-size=\"12\" fill=\"#c00000\"",
            std::to_string(clock.left()) + " steps can never run");
    }
  }

  void columns() {
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      words(x(rank), kTop - 20, "font-size=\"12\" text-anchor=\"middle\"",
            "rank " + std::to_string(rank));
      line(x(rank), kTop - 12, x(rank), bottom_, "stroke=\"#cccccc\"");
    }
  }

  void line(int x1, int y1, int x2, int y2, const std::string& attributes) {
    text_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
             "\" y2=\"" + number(y2) + "\" " + attributes + "/>\n";
  }

  void arrow(const Mark& mark) {
    if (!mark.step.sends()) return;
    line(x(mark.rank), y(mark.time, mark.lane), x(static_cast<std::size_t>(mark.step.target)),
         y(mark.time + 2, mark.lane),
         "stroke=\"" + std::string(colour(mark.lane)) +
             "\" stroke-width=\"1.4\" marker-end=\"url(" + "#head" +
             std::to_string(mark.lane % kColours.size()) + ")\"");
  }

  /// Full: combined; hollow: stored; with a ring: finished.
  void dot(const Mark& mark) {
    const Step& step = mark.step;
    if (!step.into.present() && !step.with.present()) return;
    circle(x(mark.rank), y(mark.time, mark.lane), mark.lane, step.with.present(), step.finish);
  }

  void circle(int at_x, int at_y, std::size_t lane, bool full, bool ringed) {
    const std::string place = "<circle cx=\"" + number(at_x) + "\" cy=\"" + number(at_y) + "\" ";
    const std::string stroke = " stroke=\"" + std::string(colour(lane)) + "\"/>\n";
    if (ringed) text_ += place + "r=\"6\" fill=\"white\"" + stroke;
    text_ += place + "r=\"3\" fill=\"" + std::string(full ? colour(lane) : "white") + "\"" + stroke;
  }

  void label(const Mark& mark) {
    const Step& step = mark.step;
    if (step.receives() && !step.sends()) return;  // the sender says it
    const std::string text = label_of(step);
    const std::string halo = "fill=\"" + std::string(colour(mark.lane)) +
                             "\" stroke=\"white\" stroke-width=\"4\" paint-order=\"stroke\"";
    const int at_x = x(mark.rank);
    const int at_y = y(mark.time, mark.lane) + kCharacter / 2;
    if (!step.sends()) {
      words(at_x - 9, at_y, halo + " text-anchor=\"end\"", text);
      return;
    }
    // A message's label sits on its line, near the sender; farther off if a steeper one of another
    // lane may be there.
    const int across = x(static_cast<std::size_t>(step.target)) - at_x;
    const int width = static_cast<int>(text.size()) * kCharacter;
    const int off = 12 + width / 2 + (lanes_ > 1 && std::abs(across) > column_ ? width + 4 : 0);
    words(at_x + (across < 0 ? -off : off), at_y + row_ * off / std::max(std::abs(across), 1),
          halo + " text-anchor=\"middle\"", text);
  }

  void legend() {
    int at = kSide;
    const int low = bottom_ + 22;
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      line(at, low - 4, at + 18, low - 4,
           "stroke=\"" + std::string(colour(lane)) + "\" stroke-width=\"2\"");
      words(at + 22, low, "", "lane " + std::to_string(lane));
      at += 68;
    }
    const auto entry = [&](bool full, bool ringed, const std::string& what) {
      circle(at + 6, low - 4, 0, full, ringed);
      words(at + 16, low, "", what);
      at += 30 + kCharacter * static_cast<int>(what.size());
    };
    entry(false, false, "stored");
    entry(true, false, "combined");
    entry(true, true, "and finished");
  }

  std::span<const Schedule> schedules_;
  std::string text_;
  std::size_t lanes_ = 1;
  int column_ = 0, row_ = 0, bottom_ = 0, width_ = 0;
};

}  // namespace

std::string draw(std::span<const Schedule> schedules) {
  if (schedules.empty()) return "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n";
  const Clock clock(schedules);
  return Picture(schedules, clock).take();
}

}  // namespace coll
