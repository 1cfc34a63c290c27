// SPDX-License-Identifier: Apache-2.0
// Sleeps until absolute times: writing numbers is part of a pass's time, and a late wake-up does
// not delay the gradients or the pass that follow. What others do when a gradient is ready delays
// the pass.
#include "sleeping_unit.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace training {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

/// Virtual time of a pass, from the making of this object on. If it follows another one at once, it
/// begins where that should have ended: a processor that computes does not wake late.
class Span {
 public:
  void sleep_until(Nanoseconds since_begin) const {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const Nanoseconds end = begin_ + since_begin;
    last_ = {};
    if (now() >= end) return;
    timespec time{};
    time.tv_sec = static_cast<time_t>(end.count() / kSecond);
    time.tv_nsec = static_cast<long>(end.count() % kSecond);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
    last_ = {end, now()};
  }
  /// What `work` takes is not part of the pass: it comes on top.
  template <class Work>
  void interrupt(Work work) {
    const Nanoseconds before = now();
    work();
    begin_ += now() - before;
  }

 private:
  struct Sleep {
    Nanoseconds end{}, woke{};
  };
  static Nanoseconds now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::chrono::seconds(time.tv_sec) + Nanoseconds(time.tv_nsec);
  }
  static Nanoseconds begin() {
    constexpr Nanoseconds kAtOnce = std::chrono::microseconds(100);
    const Nanoseconds at = now();
    return at - last_.woke < kAtOnce ? at - (last_.woke - last_.end) : at;
  }
  static thread_local Sleep last_;
  Nanoseconds begin_ = begin();
};
thread_local Span::Sleep Span::last_{};

/// By default Linux lets a thread oversleep by 50 microseconds.
void wake_punctually() {
  thread_local const bool set = prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  (void)set;
}

template <class Real>
class SleepingUnit final : public Unit<Real> {
 public:
  SleepingUnit(std::unique_ptr<Unit<Real>> real, std::size_t input_width, Nanoseconds forward)
      : real_(std::move(real)), input_width_(input_width), forward_(forward) {
    this->name_ = real_->name();
    this->parameters_ = real_->parameters();
    this->buffers_ = real_->buffers();
  }
  std::size_t width() const override { return real_->width(); }
  std::size_t saved_size(const Batch& batch) const override { return real_->saved_size(batch); }
  std::size_t scratch_size(const Batch& batch) const override { return real_->scratch_size(batch); }
  double operations(const Batch& /*batch*/) const override {
    return static_cast<double>(forward_.count());
  }

  void forward(const Batch& batch, const Memory<Real>& /*memory*/, const Real* /*input*/,
               Real* output, Outcome& outcome) const override {
    wake_punctually();
    const Span span;
    if (width() != 0) {
      std::fill_n(output, batch.rows() * width(), small(batch));
    } else {
      outcome.rows += count_rows(batch);
      outcome.loss += static_cast<double>(small(batch)) * static_cast<double>(count_rows(batch));
    }
    span.sleep_until(forward_);
  }

  void backward(const Batch& batch, const Memory<Real>& memory, const Real* /*input*/,
                Real* /*d_output*/, Real* d_input, Real factor,
                const typename Unit<Real>::Ready& ready) const override {
    wake_punctually();
    Span span;
    std::fill_n(d_input, batch.rows() * input_width_, small(batch) * factor);
    const std::size_t all = this->size();
    std::size_t done = 0;
    for (std::size_t i = this->parameters_.size(); i-- > 0;) {
      const std::size_t size = this->parameters_[i].size();
      std::fill_n(memory.gradients[i], size, small(batch) * factor / static_cast<Real>(i + 1));
      done += size;
      span.sleep_until(2 * forward_ * static_cast<std::int64_t>(done) /
                       static_cast<std::int64_t>(all));
      span.interrupt([&] { ready(i); });
    }
  }

 private:
  /// 1/64 to 1, by the micro-batch's first input.
  static Real small(const Batch& batch) {
    return static_cast<Real>(1 + (batch.inputs[0] & 63)) / 64;
  }

  std::unique_ptr<Unit<Real>> real_;
  std::size_t input_width_;  ///< 0: it is the first unit
  Nanoseconds forward_;
};

}  // namespace

template <class Real>
Units<Real> sleeping_units(Units<Real> units, Nanoseconds forward) {
  Units<Real> sleeping;
  for (auto& unit : units) {
    const std::size_t input_width = sleeping.empty() ? 0 : sleeping.back()->width();
    sleeping.push_back(std::make_unique<SleepingUnit<Real>>(std::move(unit), input_width, forward));
  }
  return sleeping;
}

template Units<float> sleeping_units(Units<float>, Nanoseconds);
template Units<double> sleeping_units(Units<double>, Nanoseconds);

}  // namespace training
