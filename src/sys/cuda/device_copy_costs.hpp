// SPDX-License-Identifier: Apache-2.0
// How fast a GPU copies, as this process measured it.
#pragma once

namespace coll {

/// What copies by a device's streams take. 0: not known.
struct DeviceCopyCosts {
  double within_gbytes_per_s = 0;     ///< long copies within the device's memory
  double to_host_gbytes_per_s = 0;    ///< long copies to pinned memory of the host
  double from_host_gbytes_per_s = 0;  ///< and from there
  double start_us = 0;                ///< one of many short copies on a stream
  friend bool operator==(const DeviceCopyCosts&, const DeviceCopyCosts&) = default;
};

/// Of the device with CUDA's number, measured by the first call in this process: a few milliseconds
/// of copies on a stream of their own, in the primary context. Not known where there is no driver
/// or too little memory (132 MiB for that time), and to others while one thread measures. A capture
/// of a stream, in any thread, is none the worse for it. At the end memory is freed, so the driver
/// may wait for all work of the device. So nobody tries a second time: calls may be in flight then.
/// Any thread.
DeviceCopyCosts device_copy_costs(int ordinal);

}  // namespace coll
