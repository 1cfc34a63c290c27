// SPDX-License-Identifier: Apache-2.0
// Graphs that can be launched: each lane is submitted to a stream, as its capture saw it.
#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_capture.hpp"

namespace emucuda {
namespace {

/// Lane 0 runs on the stream that launches it, every other lane on a stream of its own: what the
/// graph orders is ordered, and nothing else.
struct GraphExec final : Shared {
  explicit GraphExec(Kept<Graph> of) : graph(std::move(of)) {
    for (std::size_t lane = 1; lane < graph->lanes.size(); ++lane) {
      streams.push_back(Stream::make(*graph->lanes[lane], 0, Follows::none));
    }
  }
  ~GraphExec() override {
    for (const Kept<Stream>& stream : streams) stream->end();
  }

  const Kept<Graph> graph;
  std::mutex mutex;  // of launches
  std::vector<Kept<Stream>> streams;
  Kept<Signal> last;  // the end of the launch before: launches of one graph follow each other
};

GraphExec* exec_of(CUgraphExec handle) {
  return reinterpret_cast<GraphExec*>(handle);
}

void launch(GraphExec& exec, Stream& stream) {
  const std::lock_guard lock(exec.mutex);
  std::vector<Kept<Signal>> signals;
  for (std::size_t i = 0; i < exec.graph->signals; ++i) signals.emplace_back(new Signal);
  if (exec.last) submit_wait(stream, exec.last);
  for (const Graph::Step& step : exec.graph->steps) {
    Stream& target = step.lane == 0 ? stream : *exec.streams[step.lane - 1];
    switch (step.what) {
      case Graph::What::run:
        target.submit(*step.operation, Kept<Shared>::another(exec.graph.get()));
        break;
      case Graph::What::record:
        submit_raise(target, signals[step.signal]);
        break;
      case Graph::What::wait:
        submit_wait(target, signals[step.signal]);
        break;
    }
  }
  exec.last = Kept<Signal>(new Signal);
  submit_raise(stream, exec.last);
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* const made = new GraphExec(Kept<Graph>::another(reinterpret_cast<Graph*>(graph)));
  *exec = reinterpret_cast<CUgraphExec>(made);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(handle);
  if (exec == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture.load(std::memory_order_relaxed) !=
      nullptr) {  // graphs in graphs are not emulated
    invalidate_capture(*stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  stream->submit_waits();
  launch(*exec_of(exec), *stream);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  exec_of(exec)->drop();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<Graph*>(graph)->drop();
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
