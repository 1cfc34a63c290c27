// SPDX-License-Identifier: Apache-2.0
// A unit: a piece of a model that is computed as a whole, such as the embedding, a block or the
// head. Strategies gather, release and reduce parameters unit by unit.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace training {

/// Where tensor parallelism splits a matrix: what of the whole this rank has. With row_groups
/// (queries, keys, values) each group of rows is split alike. A vector is split as a matrix with
/// one column.
struct Slice {
  std::size_t rows = 0, columns = 0;            ///< of the whole; 0: it is not split
  std::size_t first_row = 0, first_column = 0;  ///< first_row: in each group
  std::size_t row_groups = 1;
};

/// A matrix, or a vector (rows = 1).
struct ParameterInfo {
  std::string name;
  std::size_t rows = 1, columns = 0;
  float mean = 0, deviation = 0;  ///< of its first values, which are normal
  bool decays = false;            ///< whether weight decay applies: to matrices

  Slice slice = {};

  [[nodiscard]] std::size_t size() const { return rows * columns; }
  [[nodiscard]] bool split() const { return slice.rows != 0; }
  [[nodiscard]] std::size_t whole_size() const {
    return split() ? slice.rows * slice.columns : size();
  }
  /// Elements of a row that follow each other in the whole: of a split vector 1.
  [[nodiscard]] std::size_t width() const {
    return split() ? std::min(columns, slice.columns) : columns;
  }
  /// Where element i of this rank lies in the whole matrix.
  [[nodiscard]] std::size_t whole_index(std::size_t i) const {
    if (!split()) return i;
    const std::size_t row = i / width(), own = size() / width() / slice.row_groups;
    return (row / own * (slice.rows / slice.row_groups) + slice.first_row + row % own) *
               slice.columns +
           slice.first_column + i % width();
  }
};

/// One micro-batch: rows of inputs (tokens, or pixels of images), and the right answers.
struct Batch {
  std::size_t sequences = 0, tokens = 1;          ///< rows = sequences * tokens
  std::span<const std::int32_t> inputs, targets;  ///< target -1: the row does not count
  [[nodiscard]] std::size_t rows() const { return sequences * tokens; }
};

/// How many rows have a target.
inline std::size_t count_rows(const Batch& batch) {
  std::size_t rows = 0;
  for (const std::int32_t target : batch.targets) rows += target >= 0 ? 1 : 0;
  return rows;
}

/// What the last unit says of a batch.
struct Outcome {
  double loss = 0;        ///< summed over the rows that count
  std::size_t right = 0;  ///< rows in which nothing is likelier than the target
  std::size_t rows = 0;   ///< that count
};

/// The ranks that share the matrices of a unit (tensor parallelism). All of them compute the same
/// batch and hold the same activations.
template <class Real>
class Partners {
 public:
  Partners() = default;
  Partners(const Partners&) = delete;
  Partners& operator=(const Partners&) = delete;
  virtual ~Partners() = default;
  [[nodiscard]] virtual std::size_t rank() const = 0;
  [[nodiscard]] virtual std::size_t ranks() const = 0;
  virtual void sum(std::span<Real> values) = 0;
  virtual void maximum(std::span<Real> values) = 0;
};

/// What a forward pass is for.
enum class Mode {
  training,   ///< updates buffers
  recompute,  ///< gives what the pass of `training` gave; that one has updated the buffers
  evaluation  ///< reads buffers
};

/// The memory that a pass of a unit works on.
template <class Real>
struct Memory {
  std::span<const Real* const> weights;  ///< of each parameter
  std::span<Real* const> gradients;      ///< written by `backward`, none is read
  Real* saved = nullptr;                 ///< from `forward` to `backward`: saved_size() elements
  Real* scratch = nullptr;               ///< scratch_size() elements
  std::span<Real* const> buffers = {};   ///< of each buffer; written by `forward` in training only
  Mode mode = Mode::training;            ///< of `forward`
};

template <class Real>
class Unit {
 public:
  Unit() = default;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  virtual ~Unit() = default;

  [[nodiscard]] const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  /// State that passes update and no gradient does, such as running means. Each data-parallel rank
  /// updates its own; rank 0's count.
  [[nodiscard]] const std::vector<ParameterInfo>& buffers() const { return buffers_; }
  [[nodiscard]] std::size_t size() const {  ///< elements of all parameters
    std::size_t size = 0;
    for (const ParameterInfo& parameter : parameters_) size += parameter.size();
    return size;
  }
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Elements per row of what it hands to the next unit; 0: it is the last one.
  [[nodiscard]] virtual std::size_t width() const = 0;
  /// Elements that a batch of this shape needs.
  [[nodiscard]] virtual std::size_t saved_size(const Batch& batch) const = 0;
  [[nodiscard]] virtual std::size_t scratch_size(const Batch& batch) const = 0;
  /// Multiplications and additions of a forward pass; the backward pass has twice as many.
  [[nodiscard]] virtual double operations(const Batch& batch) const = 0;

  /// The first unit reads the batch in place of `input`; the last one writes `outcome` in place of
  /// `output`.
  virtual void forward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                       Real* output, Outcome& outcome) const = 0;

  /// `ready(i)` says that the gradient of parameter i is complete; it is called from the last to
  /// the first. `d_output` is the gradient of the output, which it may overwrite; the last unit has
  /// none: it begins with the gradient of factor * (summed loss). `d_input` is written; the first
  /// unit has none.
  using Ready = std::function<void(std::size_t parameter)>;
  virtual void backward(const Batch& batch, const Memory<Real>& memory, const Real* input,
                        Real* d_output, Real* d_input, Real factor, const Ready& ready) const = 0;

 protected:
  std::string name_;
  std::vector<ParameterInfo> parameters_, buffers_;
};

template <class Real>
using Units = std::vector<std::unique_ptr<Unit<Real>>>;

}  // namespace training
