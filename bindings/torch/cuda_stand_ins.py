# SPDX-License-Identifier: Apache-2.0
# Makes empty stand-ins for the CUDA libraries that PyTorch's wheel is linked with.
"""usage: cuda_stand_ins.py TORCH-LIB-DIRECTORY

PyTorch's usual wheel for Linux is built for CUDA. Without a GPU it needs none of NVIDIA's libraries
to work, but the dynamic linker refuses to load it while they are missing, and they are gigabytes.
This script reads which libraries, symbol versions and symbols the wheel's libraries want, and
compiles libraries of these names into the same directory. All their functions answer "no device",
so `torch.cuda.is_available()` is False and everything else works as in a build for CPUs.

For machines that build and test against PyTorch. Never use it where there is a GPU.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

OF_CUDA = re.compile(r"lib(cu|nv|nccl)")
FROM_THE_DRIVER = "libcuda.so"  # torch opens it at run time, if it is there
# Undefined symbols without a version that belong to these libraries.
CUDA_SYMBOL = re.compile(r"(__cuda|cu|nccl|nvrtc|nvJit|nvtx|_?nvshmem)")
ANSWERS_TEXT = re.compile(
    r"(ErrorString|ErrorName|StatusString|ResultString|LastErrorString|getLastError)$", re.I)
NO_DEVICE = "return 100;"  # cudaErrorNoDevice
BODIES = {
    # Calls that static initialisers make, and questions whose answer is not a status.
    "__cudaRegisterFatBinary": "static void* handle[8]; return (long)handle;",
    "__cudaInitModule": "return 1;",
    "cudaGetLastError": "return 0;",
    "cudaPeekAtLastError": "return 0;",
    "cudaGetDeviceCount": "*(int*)first = 0; return 100;",
    "cudaDriverGetVersion": "*(int*)first = 0; return 0;",
    "cudaRuntimeGetVersion": "*(int*)first = 0; return 0;",
}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_libraries(libraries):
    """The CUDA libraries that these ask for and that do not lie beside them."""
    present = {library.name for library in libraries}
    asked = {name for library in libraries
             for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", library))}
    return {name for name in asked - present
            if OF_CUDA.match(name) and not name.startswith(FROM_THE_DRIVER)}


def wanted_versions(libraries, missing):
    """{symbol version: the missing library that should have it}."""
    owner = {}
    for library in libraries:
        provider = None
        for line in output_of("readelf", "-VW", library).splitlines():
            if match := re.search(r"File: (\S+)", line):
                provider = match[1]
            elif (match := re.search(r"Name: (\S+)\s+Flags", line)) and provider in missing:
                owner[match[1]] = provider
    return owner


def undefined_symbols(libraries):
    """{symbol: its versions} of what these libraries use and none of them defines."""
    used, defined = collections.defaultdict(set), set()
    for library in libraries:
        for kind, symbol in re.findall(r"^[0-9a-f ]+ (\w) (\S+)$", output_of("nm", "-D", library),
                                       re.MULTILINE):
            name, _, version = symbol.replace("@@", "@").partition("@")
            if kind == "U":
                used[name].add(version)
            elif kind not in "wv":  # a weak reference may stay undefined
                defined.add(name)
    return {name: versions for name, versions in used.items() if name not in defined}


def contents_of(libraries):
    """{missing library: {symbol version: symbols}}."""
    missing = missing_libraries(libraries)
    owner = wanted_versions(libraries, missing)
    contents = {name: collections.defaultdict(set) for name in missing}
    for version, library in owner.items():
        contents[library][version] = set()
    for symbol, versions in undefined_symbols(libraries).items():
        for version in versions:
            if version in owner:
                contents[owner[version]][version].add(symbol)
            elif not version and CUDA_SYMBOL.match(symbol):  # any of them serves
                contents[min(missing)][""].add(symbol)
    return contents


def function(symbol):
    if symbol in BODIES:
        body = BODIES[symbol]
    elif ANSWERS_TEXT.search(symbol):
        body = 'return (long)"no device";'
    else:
        body = "return 0;" if symbol.startswith("__cuda") else NO_DEVICE
    return f"long {symbol}(void* first) {{ (void)first; {body} }}\n"


def compile_library(path, versions):
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "library.c"), pathlib.Path(folder, "versions.map")
        source.write_text("".join(function(symbol) for symbols in versions.values()
                                  for symbol in sorted(symbols)))
        script.write_text("".join(
            f"{version} {{ {'global: ' + '; '.join(sorted(symbols)) + ';' if symbols else ''} }};\n"
            for version, symbols in versions.items() if version))
        with_versions = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", path, source,
                        f"-Wl,-soname,{path.name}", *with_versions], check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    libraries = [path for path in sorted(folder.glob("*.so*")) if not OF_CUDA.match(path.name)]
    if not libraries:
        sys.exit(f"cuda_stand_ins.py: no libraries in {folder}")
    contents = contents_of(libraries)
    for name, versions in contents.items():
        compile_library(folder / name, versions)
    print(f"{len(contents)} stand-ins for CUDA libraries in {folder}")


main()
