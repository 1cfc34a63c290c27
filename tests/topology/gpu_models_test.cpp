// SPDX-License-Identifier: Apache-2.0
// What names of GPUs say of their PCI links.
#include "topology/gpu_models.hpp"

#include <gtest/gtest.h>

namespace coll {
namespace {

double rate_of(NodeKind kind, const char* model) {
  Node node;
  node.kind = kind;
  node.model = model;
  return usual_pci_gbytes_per_s(node);
}

TEST(GpuModels, NamesTellTheGenerationOfPci) {
  constexpr double kThird = 15.75, kFourth = 31.5, kFifth = 63;
  for (const auto& [model, gbytes_per_s] : {
           std::pair{"NVIDIA B200", kFifth},
           {"NVIDIA GB200", kFifth},
           {"NVIDIA H100 80GB HBM3", kFifth},
           {"NVIDIA H20-3e", kFifth},
           {"NVIDIA GeForce RTX 5090", kFifth},
           {"NVIDIA RTX PRO 6000 Blackwell Server Edition", kFifth},
           {"NVIDIA GeForce RTX 4090", kFourth},
           {"NVIDIA RTX 4000 SFF Ada Generation", kFourth},
           {"NVIDIA RTX 5000 Ada Generation", kFourth},
           {"AD102GL [RTX 6000 Ada Generation]", kFourth},
           {"NVIDIA RTX 2000 Ada Generation", kFourth},
           {"NVIDIA RTX A6000", kFourth},
           {"NVIDIA A100-SXM4-80GB", kFourth},
           {"NVIDIA A10G", kFourth},
           {"NVIDIA L40S", kFourth},
           {"NVIDIA GeForce RTX 3090", kFourth},
           {"Quadro RTX 4000", kThird},
           {"Quadro RTX 5000", kThird},
           {"TU102GL [Quadro RTX 6000/8000]", kThird},
           {"Quadro RTX 8000", kThird},
           {"Quadro GV100", kThird},
           {"NVIDIA GeForce RTX 2080 Ti", kThird},
           {"NVIDIA TITAN RTX", kThird},
           {"NVIDIA GeForce GTX 1080", kThird},
           {"Tesla T4", kThird},
           {"Tesla V100-SXM2-16GB", kThird},
           {"Tesla P100-PCIE-16GB", kThird},
           {"Tesla K80", kThird},
           {"AMD Instinct MI300X", kFifth},
           {"AMD Instinct MI355X", kFifth},
           {"AMD Radeon RX 9070 XT", kFifth},
           {"AMD Instinct MI210", kFourth},
           {"AMD Instinct MI250X", kFourth},
           {"AMD Instinct MI100", kFourth},
           {"Radeon Instinct MI50", kFourth},
           {"AMD Radeon RX 7900 XTX", kFourth},
           {"Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]", kFourth},
           {"AMD Radeon RX 5500 XT", kFourth},
           {"Navi 10 [Radeon RX 5600 OEM/5600 XT / 5700/5700 XT]", kFourth},
           {"AMD Radeon RX 5700 XT", kFourth},
           {"Radeon Instinct MI25", kThird},
           {"Vega 20 [Radeon VII]", kThird},
           {"Radeon RX 580 Series", kThird},
           {"Ellesmere [Radeon RX 470/480/570/570X/580/580X/590]", kThird},
           {"Radeon RX 480", kThird},
           {"one that nobody knows", 0.0},
       })
    EXPECT_NEAR(rate_of(NodeKind::gpu, model), gbytes_per_s, 0.1) << model;
}

TEST(GpuModels, NamesOfOthersTellNothing) {
  EXPECT_EQ(rate_of(NodeKind::nic, "T420-CR Unified Wire Ethernet Controller"), 0);
  EXPECT_EQ(rate_of(NodeKind::nic, "BlueField-2 A100"), 0);
}

}  // namespace
}  // namespace coll
