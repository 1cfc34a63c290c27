// SPDX-License-Identifier: Apache-2.0
// The cost model: what plans and predictions know of a machine, as a value that files can hold.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "planner/costs/cost_constants.hpp"

namespace coll {

/// One constant, as files name it. Its unit follows from the end of its name.
struct CostConstant {
  std::string_view name;  ///< "alpha_us"
  double least = 0, most = 0;
  double& (*of)(CostConstants&) = nullptr;

  [[nodiscard]] std::string_view unit() const;  ///< "us", "us/byte", "bytes", "GB/s" or ""
};

/// The constants of one member of CostConstants.
struct CostGroup {
  std::string_view name;  ///< "memory"
  std::span<const CostConstant> constants;
};

inline constexpr std::size_t kCostGroups = 12;
/// All constants, in the order of CostConstants.
std::span<const CostGroup, kCostGroups> cost_groups();

/// A cost model. Everything that plans or predicts reads its constants here.
struct CostModel {
  std::string name;
  std::string machine;  ///< what it was measured on
  std::string date;     ///< when: "2026-11"; sorts by time
  CostConstants constants;
  std::array<std::string, kCostGroups> measured;  ///< by group: where its constants come from
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// The model that every world has unless it is given another one.
const std::shared_ptr<const CostModel>& default_cost_model();

/// The same model for RDMA over links of that rate: a byte costs its receiver the link's time, or
/// that of its copy if this is longer. 0: the model as it is.
std::shared_ptr<const CostModel> with_rdma_links(std::shared_ptr<const CostModel> model,
                                                 double gbytes_per_s);

/// As JSON, one line per group.
std::string cost_model_json(const CostModel& model);
/// Reads a model, which must have every constant and no others. `name` names the text in failures.
Result<CostModel> read_cost_model_json(std::string_view text, std::string_view name);

}  // namespace coll
