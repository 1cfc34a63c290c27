# SPDX-License-Identifier: Apache-2.0
# Writes a source that holds an image of kernels. usage: embed_kernels.py OUTPUT HEADER FUNCTION [IMAGE]
# FUNCTION, which HEADER declares, gives the image: NAMESPACE::NAME.
#
# An array in C++, since what the linker makes of a file (ld -r -b binary) is writable, and asks for
# a stack that may be executed. Of words, which compilers read faster than bytes; little-endian, as
# are all hosts of GPUs.
import sys

output, header, function, *images = sys.argv[1:]
namespace, name = function.rsplit("::", 1)
image = b""
for path in images:
    with open(path, "rb") as file:
        image += file.read()
words = [int.from_bytes(image[at:at + 8], "little") for at in range(0, len(image), 8)]
HEAD = f"""// SPDX-License-Identifier: Apache-2.0
// Made by embed_kernels.py: kernels of the device.
#include "{header}"

#include <cstdint>

namespace {namespace} {{
"""
with open(output, "w", encoding="ascii") as out:
    out.write(HEAD)
    if image:
        out.write("namespace {\nalignas(64) constexpr std::uint64_t device_image[] = {\n")
        for at in range(0, len(words), 8):
            out.write("".join(f"{word:#x}," for word in words[at:at + 8]) + "\n")
        out.write("};\n}  // namespace\n")
    what = f"std::as_bytes(std::span(device_image)).first({len(image)})" if image else "{}"
    out.write(f"std::span<const std::byte> {name}() {{\n  return {what};\n}}\n")
    out.write(f"}}  // namespace {namespace}\n")
