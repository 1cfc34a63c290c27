// SPDX-License-Identifier: Apache-2.0
// How long it takes to read machines and clusters, and to search them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>

#include "topology/read/read_topology.hpp"
#include "topology/rings/host_ring.hpp"
#include "topology/topology_hash.hpp"

namespace {

using coll::Topology;

/// Hosts of eight GPUs and eight NICs on rails, spines above.
std::string cluster_of(std::int64_t hosts) {
  return R"({"cluster": 1, "hosts": [{"count": )" + std::to_string(hosts) +
         R"(, "per_rack": 4, "topology": "package:2 numa:2 core:24 gpu:8 nvlink:switchx18 )"
         R"(nic:8@400G pcie:5x16 pciswitch:2"}], "network": {"leaf": "rail", "pod": 32,)"
         R"("above": [{"per": "pod", "switches": 8, "links": 4}, {"switches": 32}]}})";
}

Topology read(const std::string& text) {
  auto topology = coll::read_topology(text, "benchmark");
  if (!topology.ok()) {
    std::cerr << topology.status().text() << '\n';
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
  }
  return *std::move(topology);
}

void read_cluster(benchmark::State& state) {
  const std::string text = cluster_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(read(text));
}
BENCHMARK(read_cluster)->Arg(32)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);

void print_cluster(benchmark::State& state) {
  const Topology topology = read(cluster_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(coll::to_text(topology));
}
BENCHMARK(print_cluster)->Arg(32)->Arg(8192)->Unit(benchmark::kMillisecond);

void hash_cluster(benchmark::State& state) {
  const Topology topology = read(cluster_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(coll::topology_hash(topology));
}
BENCHMARK(hash_cluster)->Arg(8192)->Unit(benchmark::kMillisecond);

void write_and_read_json(benchmark::State& state) {
  const Topology topology = read(cluster_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(read(to_json(topology)));
}
BENCHMARK(write_and_read_json)->Arg(32)->Arg(8192)->Unit(benchmark::kMillisecond);

/// Eight rings through all GPUs.
void search_cluster(benchmark::State& state) {
  const Topology topology = read(cluster_of(state.range(0)));
  const auto gpus = topology.all(coll::NodeKind::gpu);
  for (auto _ : state) benchmark::DoNotOptimize(coll::nic_rings(topology, gpus));
}
BENCHMARK(search_cluster)->Arg(32)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);

/// One ring through GPUs in pairs and a NIC: all subsets are looked at. Argument: how many GPUs.
void search_host(benchmark::State& state) {
  const Topology topology =
      read("package:2 pciswitch:2 nvlink:pairs nic:1 gpu:" + std::to_string(state.range(0)));
  const auto gpus = topology.all(coll::NodeKind::gpu);
  for (auto _ : state) benchmark::DoNotOptimize(coll::host_rings(topology, gpus));
}
BENCHMARK(search_host)->Arg(8)->Arg(16)->Arg(32)->Unit(benchmark::kMillisecond);

void pack_host(benchmark::State& state) {
  const Topology topology = read("nvlink:all gpu:" + std::to_string(state.range(0)));
  const auto gpus = topology.all(coll::NodeKind::gpu);
  for (auto _ : state) benchmark::DoNotOptimize(coll::ring_orders(topology, gpus));
}
BENCHMARK(pack_host)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
