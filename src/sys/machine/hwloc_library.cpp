// SPDX-License-Identifier: Apache-2.0
// Hwloc, loaded at run time. The few functions are declared as hwloc's manual describes them
// (versions 2 and 3).
#include "sys/machine/hwloc_library.hpp"

#include <cerrno>
#include <memory>

#include "sys/shared_library.hpp"

namespace coll {
namespace {

struct Hwloc {
  unsigned (*version)() = nullptr;
  int (*init)(void** topology) = nullptr;
  int (*set_io_filter)(void* topology, int filter) = nullptr;
  int (*load)(void* topology) = nullptr;
  int (*is_this_system)(void* topology) = nullptr;
  int (*export_xml)(void* topology, char** text, int* length, unsigned long flags) = nullptr;
  void (*free_xml)(void* topology, char* text) = nullptr;
  void (*destroy)(void* topology) = nullptr;
};
constexpr int kKeepAll = 0;  // HWLOC_TYPE_FILTER_KEEP_ALL

}  // namespace

Result<HwlocExport> hwloc_export() {
  const std::string hint = "install libhwloc 2 (Debian: libhwloc15)";
  auto library = SharedLibrary::open({"libhwloc.so.15", "libhwloc.so"});
  if (!library.ok())
    return failed(Code::unsupported, "hwloc cannot be loaded: " + library.status().text(), hint);
  Hwloc hwloc;
  const bool whole = library->find("hwloc_get_api_version", hwloc.version) &&
                     library->find("hwloc_topology_init", hwloc.init) &&
                     library->find("hwloc_topology_set_io_types_filter", hwloc.set_io_filter) &&
                     library->find("hwloc_topology_load", hwloc.load) &&
                     library->find("hwloc_topology_is_thissystem", hwloc.is_this_system) &&
                     library->find("hwloc_topology_export_xmlbuffer", hwloc.export_xml) &&
                     library->find("hwloc_free_xmlbuffer", hwloc.free_xml) &&
                     library->find("hwloc_topology_destroy", hwloc.destroy);
  if (!whole || hwloc.version() < 0x20000)
    return failed(Code::unsupported, "the installed hwloc is older than version 2", hint);
  void* raw = nullptr;
  if (hwloc.init(&raw) != 0) return system_failure("hwloc_topology_init", errno);
  const std::unique_ptr<void, void (*)(void*)> topology(raw, hwloc.destroy);
  hwloc.set_io_filter(raw, kKeepAll);
  if (hwloc.load(raw) != 0) return system_failure("hwloc_topology_load", errno);
  char* text = nullptr;
  int length = 0;
  if (hwloc.export_xml(raw, &text, &length, 0) != 0)
    return system_failure("hwloc_topology_export_xmlbuffer", errno);
  HwlocExport result{text, hwloc.is_this_system(raw) != 0};
  hwloc.free_xml(raw, text);
  return result;
}

}  // namespace coll
