# SPDX-License-Identifier: Apache-2.0
# Installs the library and builds the examples against it outside the tree, as users do:
# pkg-config, CMake, Meson subproject, and the programs of the README.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

ROOT, BUILD, PREFIX, LIBDIR = sys.argv[1:5]
TIMEOUT_S = 400


def run(command, place=None, **environment):
    done = subprocess.run(command, cwd=place, env=os.environ | environment, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def run_ranks(program, size, library_path=""):
    """The sorted output lines of `size` ranks that meet through a file."""
    with tempfile.TemporaryDirectory() as place:
        launched = []
        for rank in range(size):
            environment = os.environ | {
                "COLL_RANK": str(rank), "COLL_SIZE": str(size), "COLL_DEADLINE_S": "30",
                "COLL_CONNECT_S": "30", "COLL_RENDEZVOUS": f"file://{place}/meet",
                "LD_LIBRARY_PATH": library_path}
            launched.append(subprocess.Popen([program], env=environment, text=True,
                                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT))
        try:
            outputs = [process.communicate(timeout=90)[0] for process in launched]
        finally:
            for process in launched:
                process.kill()
        if any(process.returncode for process in launched):
            raise AssertionError("\n".join(outputs))
        return sorted(line for output in outputs for line in output.splitlines())


class Installed(unittest.TestCase):
    """Each case builds in a folder of its own, far from the repository."""

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.stage = os.path.join(cls.holder.name, "stage")
        run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.stage])
        cls.prefix = cls.stage + PREFIX
        cls.libraries = os.path.join(cls.prefix, LIBDIR)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def copy(self, name):
        place = os.path.join(self.holder.name, name)
        return shutil.copytree(os.path.join(ROOT, "examples", name), place)

    def pkg_config(self):
        return {"PKG_CONFIG_SYSROOT_DIR": self.stage,
                "PKG_CONFIG_PATH": os.path.join(self.libraries, "pkgconfig")}

    def test_c_through_pkg_config(self):
        place = self.copy("consumer_pkgconfig")
        run(["make"], place, **self.pkg_config())
        program = os.path.join(place, "consumer")
        self.assertEqual(run_ranks(program, 1, self.libraries), ["rank 0 of 1: 0 0"])
        self.assertEqual(run_ranks(program, 2, self.libraries),
                         ["rank 0 of 2: 0.5 5", "rank 1 of 2: 0.5 5"])

    def test_cpp_through_cmake(self):
        place = self.copy("consumer_cmake")
        run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"], place)
        run(["cmake", "--build", "build"], place)
        program = os.path.join(place, "build", "consumer")
        self.assertEqual(run_ranks(program, 1), ["rank 0 of 1: 1"])
        self.assertEqual(run_ranks(program, 2), ["rank 0 of 2: 1 2", "rank 1 of 2: 1 2"])

    def test_cpp_through_meson(self):
        place = self.copy("consumer_meson")
        run(["meson", "setup", "build"], place, **self.pkg_config())
        run(["ninja", "-C", "build"], place)
        lines = run_ranks(os.path.join(place, "build", "consumer"), 2, self.libraries)
        self.assertEqual([line.split(":")[0] for line in lines], ["rank 0 of 2", "rank 1 of 2"])

    def test_cmake_refuses_a_version_that_does_not_fit(self):
        place = os.path.join(self.holder.name, "versions")
        os.makedirs(place)
        for version, fits in [("0.1", True), ("0", True), ("0.1.0", True), ("0.2", False),
                              ("1.0", False), ("0.1.99", False)]:
            with open(os.path.join(place, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.16)\nproject(version LANGUAGES CXX)\n"
                           f"find_package(collectives {version} QUIET)\n"
                           f"if(NOT collectives_FOUND STREQUAL {int(fits)})\n"
                           "  message(FATAL_ERROR \"found: ${collectives_FOUND}\")\nendif()\n")
            run(["cmake", "-B", "b" + version, f"-DCMAKE_PREFIX_PATH={self.prefix}"], place)

    def test_the_readme_s_program(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            program = re.search(r"```cpp\n(.*?)```", file.read(), re.S)[1]
        self.assertLessEqual(len([line for line in program.splitlines() if line.strip()]), 20)
        place = os.path.join(self.holder.name, "readme")
        os.makedirs(place)
        with open(os.path.join(place, "mean.cpp"), "w", encoding="utf-8") as file:
            file.write(program)
        flags = run(["pkg-config", "--cflags", "--libs", "collectives"], **self.pkg_config())
        run(["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "mean.cpp", "-o", "mean",
             *flags.split()], place)
        self.assertEqual(run_ranks(os.path.join(place, "mean"), 2, self.libraries),
                         ["rank 0 of 2: mean 0.5", "rank 1 of 2: mean 0.5"])

    def test_groups_and_overlap_in_c_and_cpp(self):
        flags = run(["pkg-config", "--cflags", "--libs", "collectives"],
                    **self.pkg_config()).split()
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
        compilers = {"c": ["cc", "-std=c11"], "cpp": ["c++", "-std=c++20"]}
        lines = {"groups": ["rank 0 of 2: from rank 1", "rank 1 of 2: from rank 0"],
                 "overlap": ["rank 0 of 2: 1 3 5 7", "rank 1 of 2: 1 3 5 7"]}
        for name, expected in lines.items():
            place = self.copy(name)
            for language, compiler in compilers.items():
                program = f"{name}_{language}"
                run([*compiler, *strict, f"{name}.{language}", "-o", program, *flags], place)
                self.assertEqual(run_ranks(os.path.join(place, program), 2, self.libraries),
                                 expected, program)

    def test_the_readme_shows_what_the_examples_do(self):
        def text_of(path):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                return "\n".join(line.strip() for line in file) + "\n"

        readme = text_of("README.md")
        for name in ["groups", "overlap"]:
            for language in ["c", "cpp"]:
                program = text_of(f"examples/{name}/{name}.{language}")
                blocks = re.findall(rf"```{language}\n(.*?)```", readme, re.S)
                self.assertTrue(any(block in program for block in blocks),
                                f"README.md shows nothing of {name}.{language}")

    def test_headers_stand_alone_in_c_and_cpp(self):
        flags = run(["pkg-config", "--cflags", "collectives"], **self.pkg_config()).split()
        strict = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
        for language, name in [("c", "collectives.h"), ("c", "types.h"), ("c++", "collectives.h"),
                               ("c++", "collectives.hpp")]:
            standard = "-std=c99" if language == "c" else "-std=c++20"
            source = os.path.join(self.holder.name, "header." + language)
            with open(source, "w", encoding="utf-8") as file:
                file.write(f"#include <collectives/{name}>\n")
            run(["cc", "-x", language, standard, *strict, *flags, source])


class Subproject(unittest.TestCase):
    def test_is_configured_without_tests_and_tools(self):
        """Only that: PyTorch's backend compiles it, links and runs it as a subproject."""
        with tempfile.TemporaryDirectory() as holder:
            place = shutil.copytree(os.path.join(ROOT, "examples", "consumer_meson"),
                                    os.path.join(holder, "consumer_meson"))
            os.makedirs(os.path.join(place, "subprojects"))
            os.symlink(ROOT, os.path.join(place, "subprojects", "libcollectives"))
            run(["meson", "setup", "build", "--wrap-mode=forcefallback", "-Dlibcollectives:cuda=disabled"], place)
            targets = {target["name"]: target
                       for target in json.loads(run(["meson", "introspect", "build", "--targets"], place))}
            self.assertLessEqual({"consumer", "collectives"}, targets.keys())
            self.assertEqual({targets["collectives"]["type"]}, {"shared library"})
            self.assertEqual([name for name in targets if "test" in name or name.startswith("coll-")], [])
            includes = [word for source in targets["consumer"]["target_sources"] for word in source.get("parameters", [])]
            self.assertIn("/subprojects/libcollectives/include", " ".join(includes))


tap.main()
