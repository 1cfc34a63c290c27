# SPDX-License-Identifier: Apache-2.0
# Compiles the header that most tests include, by the command that compiles one of them.
#
# usage: precompile.py COMPILE_COMMANDS TEST HEADER COPY COMPILED
#
# A compiler takes a compiled header only with the flags that it was compiled with, and Meson gives no way to say "the
# flags of that program". Runs in the build directory. The tests include COPY: beside it the compiler looks for
# COMPILED, which has the same name and one more suffix. Every build runs this. It does nothing as long as the command,
# the compiler and all included files stay as COMPILED.made-from says.
import json
import pathlib
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


def without_files(command: list[str]) -> list[str]:
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


def output_of(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def origin_of(compile_it: list[str], header: str) -> str:
    """All that the compiled header depends on, with times."""
    included = output_of([*compile_it, "-M", header]).replace("\\\n", " ").split()[1:]
    times = [f"{path} {pathlib.Path(path).stat().st_mtime_ns}" for path in included]
    return "\n".join([shlex.join(compile_it), output_of([compile_it[0], "--version"]), *times])


commands, test, header, copy, compiled = sys.argv[1:]
compile_it = [*without_files(command_of(commands, test)), "-w", "-x", "c++-header"]
origin = origin_of(compile_it, header)
made_from = pathlib.Path(compiled + ".made-from")
outputs = [pathlib.Path(copy), pathlib.Path(compiled)]
if not all(path.exists() for path in [made_from, *outputs]) or made_from.read_text() != origin:
    made_from.unlink(missing_ok=True)
    shutil.copyfile(header, copy)
    subprocess.run([*compile_it, copy, "-o", compiled], check=True)
    made_from.write_text(origin)
