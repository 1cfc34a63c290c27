# SPDX-License-Identifier: Apache-2.0
# Copies what `scripts/gpu-report` runs to where nothing is installed: programs, and the libraries
# that they are linked with.
import os
import re
import shutil
import subprocess
import sys

# Those belong to the machine: the C library to its kernel's loader, the driver to its GPU.
OF_THE_MACHINE = re.compile(r"(ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so|libcuda\.so|linux-vdso)")


def commit_of(build, root):
    """What was built: the note of a pack, or where the repository stands now."""
    note = os.path.join(build, "commit")
    if os.path.isfile(note):
        with open(note, encoding="utf-8") as file:
            return file.read().strip()
    try:
        said = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True,
                              check=True, timeout=30)
        return said.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def libraries_of(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=60).stdout
    missing = re.findall(r"(\S+) => not found", said)
    if missing:
        raise OSError(f"{program} needs {', '.join(missing)}, which is not found")
    for name, path in re.findall(r"(\S+) => (/\S+)", said):
        if not OF_THE_MACHINE.match(name):
            yield name, path


def copy(source, target):
    """Without what only a debugger reads, where there is a program to take it out."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(os.path.realpath(source), target)
    if shutil.which("strip"):
        subprocess.run(["strip", target], check=False, stderr=subprocess.DEVNULL, timeout=60)


def pack(build, place, programs, root):
    try:
        absent = [name for name in programs if not os.path.isfile(os.path.join(build, name))]
        if absent:
            print(f"gpu-report: {build} lacks {', '.join(absent)}: ninja -C {build} {' '.join(absent)}", file=sys.stderr)
            return 2
        if os.path.isdir(place) and os.listdir(place):
            raise OSError(f"{place} is not empty")
        libraries = {}
        for name in programs:
            libraries.update(libraries_of(os.path.join(build, name)))
            copy(os.path.join(build, name), os.path.join(place, name))
        for name, path in libraries.items():
            copy(path, os.path.join(place, "lib", name))
        with open(os.path.join(place, "commit"), "w", encoding="utf-8") as file:
            file.write(commit_of(build, root) + "\n")
    except (OSError, subprocess.SubprocessError) as problem:
        print(f"gpu-report: --pack: {problem}", file=sys.stderr)
        return 2
    print(f"gpu-report: there: scripts/gpu-report --build {place}", file=sys.stderr)
    return 0
