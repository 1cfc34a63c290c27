// SPDX-License-Identifier: Apache-2.0
// Opens a GPU.
#include "gpu/gpu_device.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "process_end.hpp"

namespace perf {

int local_rank_or(int otherwise) {
  for (const char* name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}

Gpu::Gpu(const char* program, int number, int local_rank) : program_(program), number_(number) {
  std::string why;
  driver_ = load_gpu_driver(why);
  if (driver_ == nullptr) give_up(why);
  require(driver_->init(0), "cuInit");
  require(driver_->version(&cuda_version_), "cuDriverGetVersion");
  int count = 0;
  require(driver_->device_count(&count), "counting the devices");
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string seen = fmt::format(
      "this process sees {} CUDA device{}{}", count, count == 1 ? "" : "s",
      visible != nullptr ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", visible) : "");
  if (count == 0) give_up(seen);
  if (number_ < 0) number_ = local_rank % count;
  if (number_ >= count) give_up(fmt::format("there is no device {}: {}", number_, seen));
  require(driver_->device_get(&device_, number_), "cuDeviceGet");
  char text[256] = "";
  require(driver_->device_name(text, sizeof text, device_), "asking for the device's name");
  name_ = text;
  require(driver_->device_bus(text, sizeof text, device_), "asking for the device's PCI bus");
  bus_ = text;
  require(driver_->device_uuid(&uuid_, device_), "asking for the device's UUID");
  // It is kept until the process ends, as the library has work in it to the last.
  GpuContext context = nullptr;
  require(driver_->context_retain(&context, device_), "retaining the primary context");
  require(driver_->context_set(context), "making the primary context current");
}

std::size_t Gpu::free_bytes() const {
  std::size_t free = 0, total = 0;
  require(driver_->memory_info(&free, &total), "asking for free memory");
  return free;
}

void Gpu::require(int error, const std::string& what) const {
  if (error != 0) give_up(fmt::format("{}: {}", what, driver_->describe(error)));
}

void Gpu::give_up(const std::string& why) const {
  const std::string place = number_ < 0 ? "cuda" : fmt::format("cuda:{}", number_);
  end_process(fmt::format("{}: --device {}: {}\n", program_, place, why));
}

GpuMemory::GpuMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu) {
  gpu_.require(gpu_.driver().memory_allocate(&address_, bytes),
               fmt::format("allocating {} bytes, of {} that are free; a smaller -e needs less",
                           bytes, gpu_.free_bytes()));
}

GpuMemory::~GpuMemory() {
  gpu_.driver().memory_free(address_);
}

void GpuMemory::write(const void* from, std::size_t bytes) {
  if (bytes > 0) gpu_.require(gpu_.driver().to_device(address_, from, bytes), "copying to it");
}

void GpuMemory::read(void* to, std::size_t bytes) const {
  if (bytes > 0) gpu_.require(gpu_.driver().to_host(to, address_, bytes), "copying from it");
}

GpuHostMemory::GpuHostMemory(const Gpu& gpu, std::size_t bytes) : gpu_(gpu) {
  gpu_.require(gpu_.driver().host_allocate(&memory_, bytes, 0),
               fmt::format("allocating {} bytes of pinned memory", bytes));
}

GpuHostMemory::~GpuHostMemory() {
  gpu_.driver().host_free(memory_);
}

GpuQueue::GpuQueue(const Gpu& gpu, bool behind_default) : gpu_(gpu) {
  const unsigned flags = behind_default ? 0 : 1;  // CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING
  gpu_.require(gpu_.driver().stream_create(&stream_, flags), "making a stream");
}

void GpuQueue::synchronize() const {
  gpu_.require(gpu_.driver().stream_synchronize(stream_), "waiting for a stream");
}

GpuQueue::~GpuQueue() {
  gpu_.driver().stream_destroy(stream_);
}

}  // namespace perf
