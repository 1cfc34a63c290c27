// SPDX-License-Identifier: Apache-2.0
// Every rank of a grid stands where the formula says, and each axis joins the right ranks.
#include "parallel/mesh.hpp"

#include <gtest/gtest.h>

#include "../training_ranks.hpp"

namespace training {
namespace mesh_test {

std::int64_t sum_over(collectives::Communicator& comm, std::int64_t value) {
  value_of(comm.all_reduce<std::int64_t>({&value, 1}, COLL_SUM));
  return value;
}

void expect_grid(const MeshShape& shape) {
  on_ranks(shape.ranks(), [&](collectives::Communicator world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    Mesh mesh(std::move(world), shape, true);
    const std::size_t d = mesh.data_rank(), t = mesh.tensor_rank(), p = mesh.pipeline_rank();
    EXPECT_EQ(mesh.rank(), rank);
    EXPECT_LT(d, shape.data);
    EXPECT_LT(t, shape.tensor);
    EXPECT_LT(p, shape.pipeline);
    const auto number = [&](std::size_t data, std::size_t tensor, std::size_t pipeline) {
      return static_cast<std::int64_t>((pipeline * shape.data + data) * shape.tensor + tensor);
    };
    EXPECT_EQ(number(d, t, p), static_cast<std::int64_t>(rank));
    EXPECT_EQ(mesh.data.size(), static_cast<int>(shape.data));
    EXPECT_EQ(mesh.tensor.size(), static_cast<int>(shape.tensor));
    EXPECT_EQ(mesh.pipeline.size(), static_cast<int>(shape.pipeline));
    EXPECT_EQ(mesh.data.rank(), static_cast<int>(d));
    EXPECT_EQ(mesh.tensor.rank(), static_cast<int>(t));
    EXPECT_EQ(mesh.pipeline.rank(), static_cast<int>(p));
    // Powers of two tell which ranks took part.
    const auto own = std::int64_t{1} << rank;
    std::int64_t along_data = 0, along_tensor = 0, along_pipeline = 0;
    for (std::size_t i = 0; i < shape.data; ++i) along_data += std::int64_t{1} << number(i, t, p);
    for (std::size_t i = 0; i < shape.tensor; ++i)
      along_tensor += std::int64_t{1} << number(d, i, p);
    for (std::size_t i = 0; i < shape.pipeline; ++i)
      along_pipeline += std::int64_t{1} << number(d, t, i);
    EXPECT_EQ(sum_over(mesh.data, own), along_data);
    EXPECT_EQ(sum_over(mesh.tensor, own), along_tensor);
    EXPECT_EQ(sum_over(mesh.pipeline, own), along_pipeline);
    EXPECT_EQ(sum_over(mesh.world, own), (std::int64_t{1} << shape.ranks()) - 1);
  });
}

TEST(Mesh, TwoByTwoByTwo) {
  expect_grid({2, 2, 2});
}
TEST(Mesh, UnequalAxes) {
  expect_grid({3, 1, 2});
}
TEST(Mesh, OneRank) {
  expect_grid({1, 1, 1});
}

TEST(Mesh, RefusesAGridOfAnotherSize) {
  on_ranks(2, [](collectives::Communicator world) {
    try {
      const Mesh mesh(std::move(world), {2, 2, 1}, true);
      ADD_FAILURE() << "four ranks of two";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Failure::kBadUsage);
      EXPECT_STREQ(failure.what(),
                   "2 data x 2 tensor x 1 pipeline ranks are 4, but 2 were started");
    }
  });
}

}  // namespace mesh_test
}  // namespace training
