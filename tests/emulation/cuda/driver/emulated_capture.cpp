// SPDX-License-Identifier: Apache-2.0
// Capture: streams that note their operations for a graph in place of running them.
#include "emulation/cuda/driver/emulated_capture.hpp"

#include <algorithm>
#include <thread>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"

namespace emucuda {

/// How many operations of each lane come before a place in the capture.
using Before = std::vector<std::size_t>;

struct Capture {
  std::uint64_t number;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  bool valid = true;
  Kept<Graph> graph{new Graph};
  std::vector<Stream*> streams;  // of each lane
  std::vector<Before> before;    // of each lane's end
  std::vector<Before> signals;
};

namespace {

std::mutex g_capture_mutex;  // of all that is here; no stream's thread takes it
auto& g_captures = *new std::vector<std::unique_ptr<Capture>>;
std::atomic<std::size_t> g_capturing{0};
std::uint64_t g_last_number = 0;
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::size_t lane_of(const Capture& capture, const Stream& stream) {
  const auto found = std::find(capture.streams.begin(), capture.streams.end(), &stream);
  return static_cast<std::size_t>(found - capture.streams.begin());
}

std::size_t add_lane(Capture& capture, Stream& stream) {
  capture.streams.push_back(&stream);
  capture.graph->lanes.push_back(&stream.context);
  capture.before.emplace_back();
  for (Before& before : capture.before) before.resize(capture.streams.size());
  stream.capture.store(&capture, std::memory_order_relaxed);
  return capture.streams.size() - 1;
}

CUresult spoil(Capture& capture, CUresult why) {
  capture.valid = false;
  return why;
}

CUresult add(Stream& stream, Graph::Step step) {
  Capture* const capture = stream.capture.load(std::memory_order_relaxed);
  if (capture == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  step.lane = lane_of(*capture, stream);
  Before& before = capture->before[step.lane];
  if (step.what == Graph::What::run) ++before[step.lane];
  if (step.what == Graph::What::record) capture->signals.push_back(before);
  capture->graph->steps.push_back(std::move(step));
  return CUDA_SUCCESS;
}

/// The stream's own view of its capture.
CUstreamCaptureStatus status_of(const Stream& stream, std::uint64_t* number, Graph** graph) {
  const std::lock_guard lock(g_capture_mutex);
  const Capture* const capture = stream.capture.load(std::memory_order_relaxed);
  if (capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  if (number != nullptr) *number = capture->number;
  if (graph != nullptr) *graph = capture->graph.get();
  return capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

}  // namespace

CUresult note(Stream& stream, std::unique_ptr<Operation> operation) {
  const std::lock_guard lock(g_capture_mutex);
  return add(stream, {Graph::What::run, 0, std::move(operation), 0});
}

CUresult note_record(Stream& stream, Event& event) {
  const std::lock_guard lock(g_capture_mutex);
  Capture* const capture = stream.capture.load(std::memory_order_relaxed);
  if (capture == nullptr || !capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event.captured = {capture->number, capture->graph->signals};
  return add(stream, {Graph::What::record, 0, nullptr, capture->graph->signals++});
}

CUresult note_wait(Stream& stream, CapturedPlace place) {
  const std::lock_guard lock(g_capture_mutex);
  Capture* const own = stream.capture.load(std::memory_order_relaxed);
  const auto of_event =
      std::find_if(g_captures.begin(), g_captures.end(),
                   [&](const auto& capture) { return capture->number == place.capture; });
  if (of_event == g_captures.end()) {  // recorded outside any capture, or in one that has ended
    return own == nullptr ? CUDA_ERROR_CAPTURED_EVENT
                          : spoil(*own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  Capture& capture = **of_event;
  if (own != nullptr && own != &capture) {
    spoil(capture, CUDA_SUCCESS);
    return spoil(*own, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const std::size_t lane = own != nullptr ? lane_of(capture, stream) : add_lane(capture, stream);
  const Before& recorded = capture.signals[place.signal];
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    capture.before[lane][i] = std::max(capture.before[lane][i], recorded[i]);
  }
  return add(stream, {Graph::What::wait, lane, nullptr, place.signal});
}

void invalidate_capture(Stream& stream) {
  const std::lock_guard lock(g_capture_mutex);
  Capture* const capture = stream.capture.load(std::memory_order_relaxed);
  if (capture != nullptr) capture->valid = false;
}

CUresult refuse_in_capture(const Stream* stream) {
  if (g_capturing.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  const std::lock_guard lock(g_capture_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : g_captures) {
    const bool about_it =
        stream != nullptr && stream->capture.load(std::memory_order_relaxed) == capture.get();
    const bool own = capture->thread == std::this_thread::get_id();
    const bool forbids = t_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                         ((own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) ||
                          (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                           t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (about_it || forbids) result = spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return result;
}

CUresult refuse_captured(Event& event) {
  {
    const std::lock_guard lock(event.mutex);
    if (event.captured.capture != 0) return CUDA_ERROR_CAPTURED_EVENT;
  }
  return refuse_in_capture(nullptr);
}

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  // CUDA cannot capture the legacy stream, which is that of the handles 0 and 1.
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  Stream& stream = *stream_of(handle);
  const std::lock_guard lock(g_capture_mutex);
  if (stream.capture.load(std::memory_order_relaxed) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto capture = std::make_unique<Capture>();
  capture->number = ++g_last_number;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  add_lane(*capture, stream);
  g_captures.push_back(std::move(capture));
  g_capturing.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  const std::lock_guard lock(g_capture_mutex);
  Capture* const capture = stream->capture.load(std::memory_order_relaxed);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->streams[0] != stream) return spoil(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult result = capture->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  for (std::size_t lane = 0; lane < capture->streams.size(); ++lane) {
    capture->streams[lane]->capture.store(nullptr, std::memory_order_relaxed);
    const bool joined = capture->before[0][lane] == capture->before[lane][lane];
    if (!joined && result == CUDA_SUCCESS) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (result == CUDA_SUCCESS) *graph = reinterpret_cast<CUgraph>(capture->graph.release());
  std::erase_if(g_captures, [capture](const auto& one) { return one.get() == capture; });
  g_capturing.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr || status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = status_of(*stream, nullptr, nullptr);
  return CUDA_SUCCESS;
}

/// A graph has no nodes that a program could name: none are given.
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                   const void** edges, std::size_t* count) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr || status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph* noted = nullptr;
  *status = status_of(*stream, id, &noted);
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(noted);
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                   std::uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                                   std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, nullptr, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, t_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
