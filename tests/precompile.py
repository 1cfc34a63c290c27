# SPDX-License-Identifier: Apache-2.0
"""Compiles the header that most tests include, by the command that compiles one of them.

usage: precompile.py COMPILE_COMMANDS TEST HEADER COPY COMPILED [ANYTHING...]

A compiler takes a compiled header only for the flags that it was compiled with, and this build system gives no way to
say "the flags of that program". Runs in the build directory. COPY is what the tests are told to include: beside it the
compiler looks for COMPILED, which has the same name and one more suffix.
"""

import json
import shlex
import shutil
import subprocess
import sys


def command_of(path: str, test: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        for entry in json.load(file):
            if f"/{test}.p/" in entry["output"]:
                return shlex.split(entry["command"])
    sys.exit(f"precompile.py: {path} does not tell how {test} is compiled")


def flags_of(command: list[str]) -> list[str]:
    """Without what names its files, and without ccache, which does not know such outputs."""
    names_a_file = {"-o", "-c", "-MF", "-MQ", "-include"}
    words = iter(command[1:] if command[0].endswith("ccache") else command)
    flags = []
    for word in words:
        if word in names_a_file:
            next(words)
        elif word != "-MD":
            flags.append(word)
    return flags


commands, test, header, copy, compiled = sys.argv[1:6]
shutil.copyfile(header, copy)
subprocess.run([*flags_of(command_of(commands, test)), "-w", "-x", "c++-header", copy, "-o", compiled], check=True)
