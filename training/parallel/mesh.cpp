// SPDX-License-Identifier: Apache-2.0
// Splits the world along the grid's axes.
#include "mesh.hpp"

#include <fmt/format.h>

namespace training {
namespace {

collectives::Communicator split(collectives::Communicator& world, std::size_t color,
                                std::size_t key, const coll_config_t& config) {
  auto part = value_of(world.split(static_cast<int>(color), static_cast<int>(key), &config));
  return std::move(*part);
}

coll_config_t named(const char* name, coll_order_t order) {
  coll_config_t config = COLL_CONFIG_INIT;
  config.name = name;
  config.order = order;
  return config;
}

}  // namespace

void check_ranks(const MeshShape& shape, std::size_t ranks) {
  if (shape.ranks() == ranks) return;
  throw Failure(fmt::format("{} data x {} tensor x {} pipeline ranks are {}, but {} were started",
                            shape.data, shape.tensor, shape.pipeline, shape.ranks(), ranks),
                Failure::kBadUsage);
}

Mesh::Mesh(collectives::Communicator whole, const MeshShape& shape, bool same_bits)
    : world(std::move(whole)),
      data([&] {
        const MeshShape& s = shape;
        check_ranks(s, static_cast<std::size_t>(world.size()));
        const auto rank = static_cast<std::size_t>(world.rank());
        const std::size_t t = rank % s.tensor, p = rank / (s.tensor * s.data);
        return split(world, p * s.tensor + t, rank,
                     named("data parallel", same_bits ? COLL_ORDER_TREE : COLL_ORDER_ANY));
      }()),
      tensor([&] {
        const auto rank = static_cast<std::size_t>(world.rank());
        return split(world, rank / shape.tensor, rank,
                     named("tensor parallel", same_bits ? COLL_ORDER_TREE : COLL_ORDER_ANY));
      }()),
      pipeline([&] {
        const auto rank = static_cast<std::size_t>(world.rank());
        return split(world, rank % (shape.tensor * shape.data), rank,
                     named("pipeline", COLL_ORDER_DEFAULT));
      }()),
      shape_(shape),
      rank_(static_cast<std::size_t>(world.rank())) {}

}  // namespace training
