// SPDX-License-Identifier: Apache-2.0
// Modules, kernels and host functions: what runs code of the program on a stream.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_limits.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"
#include "emulation/cuda/driver/emulated_stream.hpp"
#include "emulation/cuda/emulated_launch.hpp"

namespace emucuda {
namespace {

struct Function {
  Function(EmulatedKernel* calls, std::size_t bytes) : twin(calls), params_bytes(bytes) {}
  EmulatedKernel* const twin;
  const std::size_t params_bytes;
  std::atomic<int> dynamic_shared{kBlockShared};
};

struct Module {
  std::mutex mutex;
  std::map<std::string, Function> functions;
};

Function* function_of(CUfunction handle) {
  return reinterpret_cast<Function*>(handle);
}
Module* module_of(CUmodule handle) {
  return reinterpret_cast<Module*>(handle);
}

class Kernel final : public Operation {
 public:
  Kernel(EmulatedKernel* twin, const EmulatedLaunch& launch, const void* params, std::size_t bytes)
      : twin_(twin),
        launch_(launch),
        params_((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {
    if (bytes > 0) std::memcpy(params_.data(), params, bytes);
  }
  void run(Stream& stream) override {
    stream.doing(Doing::kernel, reinterpret_cast<const void*>(twin_));
    twin_(params_.data(), &launch_);
  }

 private:
  EmulatedKernel* const twin_;
  const EmulatedLaunch launch_;
  std::vector<std::max_align_t> params_;
};

class HostFunction final : public Operation {
 public:
  HostFunction(CUhostFn function, void* argument) : function_(function), argument_(argument) {}
  void run(Stream& stream) override {
    stream.doing(Doing::host_function, reinterpret_cast<const void*>(function_));
    const HostFunctionRuns runs;
    function_(argument_);
  }

 private:
  const CUhostFn function_;
  void* const argument_;
};

/// Null: there is no library of twins, or it cannot be opened, which stderr then says.
void* twins() {
  static void* const library = [] {
    const std::string& name = machine().kernels;
    void* const opened = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr && !name.empty())
      std::fprintf(stderr, "emulated CUDA: EMUCUDA_KERNELS: %s\n", dlerror());
    return opened;
  }();
  return library;
}

/// The parameters, wherever the launch has them. Null: nowhere, or of another size.
const void* find_params(const Function& function, void** parameters, void** extra) {
  if (parameters != nullptr) return parameters[0];
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<std::size_t*>(extra[1]);
  }
  return bytes == function.params_bytes ? buffer : nullptr;
}

CUresult launch_kernel(const EmulatedLaunch& launch, Stream* stream, const Function* function,
                       void** parameters, void** extra) {
  if (stream == nullptr || function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] == 0 || launch.block[i] == 0) return CUDA_ERROR_INVALID_VALUE;
    if (launch.grid[i] > static_cast<unsigned>(i == 0 ? kGridWidth : kGridHeight))
      return CUDA_ERROR_INVALID_VALUE;
    threads *= launch.block[i];
  }
  if (threads > kBlockThreads || launch.block[2] > kBlockDepth) return CUDA_ERROR_INVALID_VALUE;
  if (launch.shared_bytes >
      static_cast<unsigned>(function->dynamic_shared.load(std::memory_order_relaxed))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const void* const params = find_params(*function, parameters, extra);
  if (params == nullptr && function->params_bytes > 0) return CUDA_ERROR_INVALID_VALUE;
  return stream->accept(
      std::make_unique<Kernel>(function->twin, launch, params, function->params_bytes));
}

}  // namespace

extern "C" {

/// The image is not read: the kernels are those that have a twin. Without any, it is an image for
/// other devices.
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (twins() == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *module = reinterpret_cast<CUmodule>(new Module);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete module_of(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (function == nullptr || module == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (twins() == nullptr) return CUDA_ERROR_NOT_FOUND;
  const std::string size = std::string(name) + "_params_bytes";
  const auto* const bytes = static_cast<const std::size_t*>(dlsym(twins(), size.c_str()));
  auto* const twin = reinterpret_cast<EmulatedKernel*>(dlsym(twins(), name));
  if (twin == nullptr || bytes == nullptr) return CUDA_ERROR_NOT_FOUND;
  const std::lock_guard lock(module_of(module)->mutex);
  *function = reinterpret_cast<CUfunction>(
      &module_of(module)->functions.try_emplace(name, twin, *bytes).first->second);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_SUCCESS;  // only advice
  if (value < 0 || value > kBlockSharedOnDemand) return CUDA_ERROR_INVALID_VALUE;
  function_of(function)->dynamic_shared.store(value, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? kBlockThreads
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
           : attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
               ? function_of(function)->dynamic_shared.load(std::memory_order_relaxed)
               : 0;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_threads, std::size_t shared) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (blocks == nullptr || function == nullptr || block_threads <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  const int by_shared = static_cast<int>(kProcessorShared / (shared + kReservedShared));
  const bool fits = block_threads <= kBlockThreads && shared <= kBlockSharedOnDemand;
  *blocks = fits ? std::min({kProcessorBlocks, kProcessorThreads / block_threads, by_shared}) : 0;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const EmulatedLaunch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  return launch_kernel(launch, stream_of(stream), function_of(function), parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* how, CUfunction function, void** parameters,
                          void** extra) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (how == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return cuLaunchKernel(function, how->gridDimX, how->gridDimY, how->gridDimZ, how->blockDimX,
                        how->blockDimY, how->blockDimZ, how->sharedMemBytes, how->hStream,
                        parameters, extra);
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return stream->accept(std::make_unique<HostFunction>(function, argument));
}

}  // extern "C"
}  // namespace emucuda
