# SPDX-License-Identifier: Apache-2.0
# What nvcc made: the images hold every kernel for every architecture, compiled by the rules of
# docs/numerics.md. usage: device_image_test.py IMAGE FUSED_IMAGE NM TWINS ARCHITECTURE…
#
# An image is a fatbin: a head, then an entry for each architecture, each packed by Zstandard.
import ctypes
import ctypes.util
import re
import struct
import subprocess
import sys
import unittest

import tap

IMAGE, FUSED_IMAGE, NM, TWINS, *ARCHITECTURES = sys.argv[1:]
FUSED = {"coll_fused"}  # the kernels of FUSED_IMAGE
VECTOR = r"\.(v4\.[bufs]32|v2\.[bufs]64)"
PTX, ELF = 1, 2  # kinds of entries
HEAD = struct.Struct("<IHHQ")  # magic, version, bytes of this head, bytes of what follows
ENTRY = struct.Struct("<HHIQI")  # kind, version, bytes of this head, bytes here, bytes packed
ARCHITECTURE_AT, UNPACKED_AT = 28, 56  # in an entry


def unpacked(data, size):
    library = ctypes.util.find_library("zstd")
    if library is None:
        raise unittest.SkipTest("no libzstd to unpack the image with")
    zstd = ctypes.CDLL(library)
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
    out = ctypes.create_string_buffer(size)
    got = zstd.ZSTD_decompress(out, size, data, len(data))
    if got != size:
        raise AssertionError(f"an entry of {size} bytes does not unpack: {got}")
    return out.raw


def entries(path):
    """(kind, architecture, content) of each."""
    with open(path, "rb") as file:
        image = file.read()
    magic, _, at, _ = HEAD.unpack_from(image)
    assert magic == 0xBA55ED50, hex(magic)
    while at < len(image):
        kind, _, head, here, packed = ENTRY.unpack_from(image, at)
        architecture, = struct.unpack_from("<I", image, at + ARCHITECTURE_AT)
        size, = struct.unpack_from("<Q", image, at + UNPACKED_AT)
        data = image[at + head:at + head + (packed or here)]
        yield kind, architecture, unpacked(data, size) if packed else data
        at += head + here


def ptx_of(path):
    return next(content.decode() for kind, _, content in entries(path) if kind == PTX)


def kernels():
    """The names that the twins, the same source for the host, export."""
    out = subprocess.run([NM, "-D", "--defined-only", TWINS], check=True, capture_output=True, text=True)
    return {name for name in re.findall(r" T (coll_\w+)$", out.stdout, re.MULTILINE)}


class DeviceImage(unittest.TestCase):
    def test_there_is_code_for_every_architecture_and_ptx_for_the_others(self):
        for path in IMAGE, FUSED_IMAGE:
            self.assertEqual(sorted((kind, architecture) for kind, architecture, _ in entries(path)),
                             sorted([(PTX, 80)] + [(ELF, int(a)) for a in ARCHITECTURES]))

    def test_every_kernel_is_there_for_every_architecture(self):
        wanted = kernels()
        self.assertGreater(len(wanted), 150, "it sees the kernels")
        for path, names in (IMAGE, wanted - FUSED), (FUSED_IMAGE, wanted & FUSED):
            for kind, architecture, content in entries(path):
                if kind == ELF:
                    self.assertEqual(content[:4], b"\x7fELF")
                    found = set(re.findall(rb"\0\.text\.(coll_\w+)(?=\0)", content))
                else:
                    found = set(re.findall(rb"^\.visible \.entry (coll_\w+)\(", content, re.MULTILINE))
                self.assertEqual({name.decode() for name in found}, names, f"sm_{architecture}, kind {kind}")

    def test_nothing_is_fused_flushed_or_approximated(self):
        for path in IMAGE, FUSED_IMAGE:
            ptx = ptx_of(path)
            self.assertIn("add.rn.f32", ptx)
            self.assertIn("div.rn.f64", ptx)
            self.assertEqual(re.findall(r"\b(?:fma|mad\.r[nz])\S*|\S*\.(?:ftz|approx|full)\S*", ptx), [])

    def test_vectors_are_loaded_and_stored_whole(self):
        """For every type and operation; byte by byte would still be right, but many times as slow."""
        for name, body in re.findall(r"\.entry (coll_\w+)\((.*?)^}", ptx_of(IMAGE), re.MULTILINE | re.DOTALL):
            self.assertGreaterEqual(len(re.findall(r"ld\.global" + VECTOR, body)), 1 if "_scale_" in name else 2, name)
            self.assertGreaterEqual(len(re.findall(r"st\.global" + VECTOR, body)), 1, name)
            self.assertNotIn(".local", body, f"{name} keeps elements in memory of its own")

    def test_the_fused_kernel_moves_vectors_too(self):
        passes = re.findall(r"^\.func \S*(combine_by_block|copy_by_block)\S*\((.*?)^}", ptx_of(FUSED_IMAGE),
                            re.MULTILINE | re.DOTALL)
        self.assertGreater(len(passes), 120)
        for name, body in passes:
            # Their places may be in shared memory, so the addresses are generic.
            self.assertRegex(body, r"\bld" + VECTOR, name)
            self.assertRegex(body, r"\bst" + VECTOR, name)
            self.assertNotIn("st.local", body, f"{name} keeps elements in memory of its own")


tap.main()
