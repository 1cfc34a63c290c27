// SPDX-License-Identifier: Apache-2.0
// The steps of the algorithm, for all matrices of a bucket together.
#include "power_sgd_hook.hpp"

#include <algorithm>
#include <cmath>

#include "../layout/initial_weights.hpp"
#include "../math/kernels.hpp"
#include "low_rank.hpp"

namespace training {

void PowerSgdHook::Matrix::set_first(std::size_t row) const {
  const std::size_t columns = info.columns;
  const ParameterInfo random{.name = info.name + " (PowerSGD)",
                             .rows = q.size() / columns,
                             .columns = columns,
                             .deviation = 1};
  initial_values(random, 0, row * columns, q.span().subspan(row * columns, columns));
}

void PowerSgdHook::begin(const Units<float>& units) {
  feedback_.begin(units, arena_);
  matrices_.clear();
  for (const auto& unit : units) {
    matrices_.emplace_back();
    for (const ParameterInfo& info : unit->parameters()) {
      Matrix matrix{info, compresses(info), {}};
      if (matrix.compressed) matrix.q = arena_.take<float>(rank_ * info.columns, Use::staging);
      for (std::size_t row = 0; matrix.compressed && row < rank_; ++row) matrix.set_first(row);
      matrices_.back().push_back(std::move(matrix));
    }
  }
}

std::size_t PowerSgdHook::first_size(const Bucket& bucket) {
  std::size_t size = 0;
  for (const Place& place : bucket.places)
    size += matrix(place).compressed ? rank_ * matrix(place).info.rows : place.size;
  return size;
}

std::size_t PowerSgdHook::second_size(const Bucket& bucket) {
  std::size_t size = 0;
  for (const Place& place : bucket.places)
    size += matrix(place).compressed ? rank_ * matrix(place).info.columns : 0;
  return size;
}

Pending PowerSgdHook::start(const GradBucket& bucket, Traffic& traffic) {
  if (bucket.index == 0) ++step_;
  if (is_plain()) return traffic.all_reduce(bucket.data.data(), bucket.data.size(), Format::f32);
  feedback_.add_to(bucket.bucket(), bucket.data);
  const std::size_t size = first_size(bucket.bucket());
  auto* wire = reinterpret_cast<float*>(
      wire_.take(bucket.index, (size + second_size(bucket.bucket())) * sizeof(float)).data());
  float* p = wire;
  for (const Place& place : bucket.bucket().places) {
    const Matrix& of = matrix(place);
    const float* m = bucket.data.data() + place.offset;
    if (!of.compressed) {
      p = std::copy_n(m, place.size, p);
      continue;
    }
    const std::size_t n = of.info.rows, columns = of.info.columns;
    kernels<float>().product(false, true, rank_, n, columns, of.q.data(), columns, m, columns, 0, p,
                             n);
    p += rank_ * n;
  }
  return traffic.all_reduce(wire, size, Format::f32);
}

void PowerSgdHook::finish(const GradBucket& bucket, Traffic& traffic) {
  if (is_plain()) return;
  auto* first = reinterpret_cast<float*>(wire_.data(bucket.index));
  float* second = first + first_size(bucket.bucket());
  float *p = first, *q = second;
  for (const Place& place : bucket.bucket().places) {
    float* m = bucket.data.data() + place.offset;
    if (!matrix(place).compressed) {
      std::fill_n(m, place.size, 0.0F);
      p += place.size;
      continue;
    }
    const std::size_t n = matrix(place).info.rows, columns = matrix(place).info.columns;
    orthonormalise(rank_, n, p);
    kernels<float>().product(false, false, rank_, columns, n, p, n, m, columns, 0, q, columns);
    subtract_low_rank(rank_, n, columns, p, q, m);
    p += rank_ * n;
    q += rank_ * columns;
  }
  feedback_.keep(bucket.bucket(), bucket.data);
  Pending summed = traffic.all_reduce(second, second_size(bucket.bucket()), Format::f32);
  traffic.wait(summed);
  p = first;
  q = second;
  for (const Place& place : bucket.bucket().places) {
    const Matrix& of = matrix(place);
    float* m = bucket.data.data() + place.offset;
    if (!of.compressed) {
      std::copy_n(p, place.size, m);
      p += place.size;
      continue;
    }
    const std::size_t n = of.info.rows, columns = of.info.columns;
    low_rank_product(rank_, n, columns, p, q, m);
    remember(of, q);
    p += rank_ * n;
    q += rank_ * columns;
  }
}

void PowerSgdHook::remember(const Matrix& of, const float* q) {
  const std::size_t columns = of.info.columns;
  for (std::size_t row = 0; row < rank_; ++row) {
    const auto kept = of.q.span().subspan(row * columns, columns);
    std::copy_n(q + row * columns, columns, kept.begin());
    // A row of 0 would stay so for ever, and so would one with a NaN.
    const bool finite = std::ranges::all_of(kept, [](float x) { return std::isfinite(x); });
    const bool zero = std::ranges::all_of(kept, [](float x) { return x == 0; });
    if (!finite || zero) of.set_first(row);
  }
}

}  // namespace training
