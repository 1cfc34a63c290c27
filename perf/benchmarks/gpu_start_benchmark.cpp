// SPDX-License-Identifier: Apache-2.0
// What it takes until a process can work on a GPU: the driver, the context, this library's kernels,
// its first calls. Each happens once in a process. Prints JSON; "kernels" is null in a build
// without nvcc.
#include <collectives/collectives.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "gpu/gpu_driver.hpp"
#include "reduce/device/device_kernels.hpp"

namespace {

using nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& what, const std::string& why) {
  fmt::print(stderr, "gpu-start-benchmark: {}: {}\n", what, why);
  std::_Exit(2);
}

template <class Work>
double milliseconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

class Start {
 public:
  void driver() {
    std::string why;
    json_["driver_load_ms"] = milliseconds([&] { driver_ = perf::load_gpu_driver(why); });
    if (driver_ == nullptr) fail("loading the driver", why);
    json_["driver_init_ms"] = milliseconds([&] { must(driver_->init(0), "cuInit"); });
    int device = 0, version = 0;
    must(driver_->version(&version), "cuDriverGetVersion");
    must(driver_->device_get(&device, 0), "cuDeviceGet of device 0");
    char name[256] = "";
    must(driver_->device_name(name, sizeof name, device), "cuDeviceGetName");
    json_["device"] = name;
    json_["cuda"] = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    json_["context_ms"] = milliseconds([&] {
      perf::GpuContext context = nullptr;
      must(driver_->context_retain(&context, device), "cuDevicePrimaryCtxRetain");
      must(driver_->context_set(context), "cuCtxSetCurrent");
    });
  }

  /// A driver that loads lazily does most of the work when kernels are looked up.
  void kernels() {
    const auto image = coll::reduce::device_kernels();
    if (image.empty()) {
      json_["kernels"] = nullptr;
      return;
    }
    std::vector<std::string> names;
    for (int t = 0; t < coll::kDataTypes; ++t) {
      const auto type = static_cast<coll::DataType>(t);
      for (int op = 0; op < coll::kReduceOps; ++op)
        if (coll::has_meaning(static_cast<coll::ReduceOp>(op), type))
          names.push_back(coll::reduce::device_kernel(static_cast<coll::ReduceOp>(op), type, true));
      if (type != coll::DataType::boolean) names.push_back(coll::reduce::device_scale_kernel(type));
    }
    perf::GpuModule module = nullptr;
    ordered_json kernels;
    kernels["image_bytes"] = image.size();
    kernels["load_ms"] = milliseconds(
        [&] { must(driver_->module_load(&module, image.data()), "loading the kernels"); });
    kernels["count"] = names.size();
    kernels["look_up_ms"] = milliseconds([&] {
      for (const std::string& name : names) {
        perf::GpuFunction function = nullptr;
        must(driver_->module_function(&function, module, name.c_str()), "kernel " + name);
      }
    });
    json_["kernels"] = kernels;
  }

  /// One rank, alone, and buffers on the device.
  void library() {
    coll_comm_t comm = nullptr;
    json_["join_ms"] = milliseconds([&] {
      coll_unique_id_t id;
      must_call(coll_get_unique_id(&id), "coll_get_unique_id");
      must_call(coll_comm_init_rank(&comm, 1, &id, 0, nullptr), "coll_comm_init_rank");
    });
    perf::GpuAddress memory = 0;
    must(driver_->memory_allocate(&memory, 512), "allocating memory");
    float value = 3;
    must(driver_->to_device(memory, &value, sizeof value), "copying to the device");
    const auto call = [&] {
      must_call(
          coll_all_reduce(reinterpret_cast<void*>(memory), reinterpret_cast<void*>(memory + 256), 1,
                          COLL_FLOAT32, COLL_SUM, comm, nullptr),
          "coll_all_reduce of a float on the device");
    };
    json_["first_call_ms"] = milliseconds(call);
    std::vector<double> later(21);
    for (double& each : later) each = milliseconds(call);
    std::sort(later.begin(), later.end());
    json_["later_call_ms"] = later[later.size() / 2];
    float got = 0;
    must(driver_->to_host(&got, memory + 256, sizeof got), "copying from the device");
    if (got != value) fail("the call's result", fmt::format("{} instead of {}", got, value));
    must_call(coll_comm_destroy(comm), "coll_comm_destroy");
    must(driver_->memory_free(memory), "freeing memory");
  }

  [[nodiscard]] std::string text() const { return json_.dump(2) + "\n"; }

 private:
  void must(int error, const std::string& what) const {
    if (error != 0) fail(what, driver_->describe(error));
  }
  static void must_call(coll_status_t status, const char* what) {
    if (status != COLL_SUCCESS) fail(what, coll_last_error());
  }

  const perf::GpuDriver* driver_ = nullptr;
  ordered_json json_;
};

}  // namespace

int main() {
  Start start;
  start.driver();
  start.kernels();
  start.library();
  fmt::print("{}", start.text());
}
