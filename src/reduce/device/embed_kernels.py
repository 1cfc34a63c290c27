# SPDX-License-Identifier: Apache-2.0
# Writes device_kernels.cpp, which holds the kernels' image. usage: embed_kernels.py OUTPUT [IMAGE]
#
# An array in C++, since what the linker makes of a file (ld -r -b binary) is writable, and asks for
# a stack that may be executed. Of words, which compilers read faster than bytes; little-endian, as
# are all hosts of GPUs.
import sys

image = b""
if len(sys.argv) > 2:
    with open(sys.argv[2], "rb") as file:
        image = file.read()
words = [int.from_bytes(image[at:at + 8], "little") for at in range(0, len(image), 8)]
HEAD = """// SPDX-License-Identifier: Apache-2.0
// Made by embed_kernels.py: the kernels of the device.
#include "reduce/device/device_kernels.hpp"

namespace coll::reduce {
"""
with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write(HEAD)
    if image:
        out.write("namespace {\nalignas(64) constexpr std::uint64_t device_image[] = {\n")
        for at in range(0, len(words), 8):
            out.write("".join(f"{word:#x}," for word in words[at:at + 8]) + "\n")
        out.write("};\n}  // namespace\n")
    what = f"std::as_bytes(std::span(device_image)).first({len(image)})" if image else "{}"
    out.write(f"std::span<const std::byte> device_kernels() {{\n  return {what};\n}}\n")
    out.write("}  // namespace coll::reduce\n")
