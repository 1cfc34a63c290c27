# SPDX-License-Identifier: Apache-2.0
# The installed package: it carries the library, and names no directory of the machine it was built on.
import pathlib
import re
import subprocess
import sys

import collectives_torch._extension as extension


def test_the_package_carries_the_library_and_finds_it_beside_itself():
    path = pathlib.Path(extension.__file__)
    dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True,
                             check=True).stdout
    paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
    assert len(paths) == 1 and all(part.startswith("$ORIGIN/") for part in paths[0].split(":"))
    carried = (path.parent / paths[0].removeprefix("$ORIGIN/") / "libcollectives.so.0").resolve()
    assert carried.is_file()
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
    assert {line.split(None, 5)[5] for line in maps.splitlines() if "libcollectives" in line} \
        == {str(carried)}


def test_another_version_of_pytorch_is_refused():
    code = "import torch; torch.__version__ = '2.99.1'; import collectives_torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                         check=False)
    assert run.returncode != 0
    assert f"built for PyTorch {extension.built_for}, this is 2.99.1" in run.stderr
