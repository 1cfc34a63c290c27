// SPDX-License-Identifier: Apache-2.0
// The pieces that a rank owns, from its layout: what lies where in its buckets has which address.
#pragma once
#include <cstddef>
#include <vector>

#include "piece.hpp"

namespace training {

using ParameterTable = std::vector<std::vector<ParameterInfo>>;  ///< [unit][parameter]

/// A piece, and where it lies: as Optimizer::read and write count.
struct OwnedPiece {
  std::size_t bucket = 0, first = 0;  ///< first: from the begin of the bucket's owned part
  Piece piece;
};

/// All of one state that this rank owns, as few pieces as can be. A matrix that is split by columns
/// has a piece for each row.
std::vector<OwnedPiece> owned_pieces(const FlatLayout& layout, const Shard& shard,
                                     const ParameterTable& parameters, State state);

/// The parameter as all ranks have it together. What has one column is a vector too.
WholeParameter whole(const ParameterInfo& parameter);

/// The parameters of all units.
template <class Real>
ParameterTable parameters_of(const Units<Real>& units) {
  ParameterTable table;
  for (const auto& unit : units) table.push_back(unit->parameters());
  return table;
}

}  // namespace training
