# SPDX-License-Identifier: Apache-2.0
# What libcollectives.so shows and needs.
import os
import re
import subprocess
import sys
import unittest

import tap

ROOT, LIBRARY, NM, READELF = sys.argv[1:5]

# What every C++ program needs, and libcrypto: ranks prove to each other that they know the job's
# key before anything else is read from them. All else is loaded at run time where it exists.
MAY_NEED = re.compile(r"(libc|libm|libstdc\+\+|libgcc_s|libcrypto|libpthread|libdl|librt"
                      r"|ld-linux[\w-]*|libasan|libubsan|libtsan)\.so\.\d+$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def header():
    path = os.path.join(ROOT, "include/collectives/collectives.h")
    with open(path, encoding="utf-8") as file:
        return file.read()


def declared():
    text = re.sub(r"/\*.*?\*/", "", header(), flags=re.S)
    return set(re.findall(r"^COLL_API[^;(]*?\b(\w+)\(", text, re.M))


class Library(unittest.TestCase):
    def test_shows_the_functions_of_the_header_and_nothing_else(self):
        shown = {line.split()[-1].split("@")[0]
                 for line in run(NM, "-D", "--defined-only", LIBRARY).splitlines()}
        self.assertGreater(len(declared()), 20, "the header was not understood")
        self.assertEqual(shown, declared())

    def test_needs_only_what_it_must(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run(READELF, "-dW", LIBRARY))
        self.assertIn("libc.so.6", needed)
        self.assertFalse([name for name in needed if not MAY_NEED.match(name)])

    def test_has_a_versioned_name_and_no_path_of_the_builder(self):
        dynamic = run(READELF, "-dW", LIBRARY)
        self.assertIn("Library soname: [libcollectives.so.0]", dynamic)
        self.assertNotRegex(dynamic, r"R(UN)?PATH")

    def test_no_lock_of_a_static_can_be_left_taken_by_a_fork(self):
        # A function-local static that another thread initialises during a fork stays locked in the
        # child: base/made_once.hpp. These are made while the library is loaded, or thread-local.
        known = {"coll::LiveCommunicators::of_process()::one", "Book::of_process()::one",
                 "Lines::of_process()::one",
                 "coll::last_error()::last", "coll::OpenGroup::place()::group"}
        found = re.findall(r"guard variable for (.*)", run(NM, "-C", LIBRARY))
        found = {re.sub(r"\[abi:\w+\]|coll::\(anonymous namespace\)::", "", one) for one in found
                 if not one.startswith("std::")}
        self.assertFalse(found - known)

    def test_its_stack_is_not_executable(self):
        self.assertRegex(run(READELF, "-lW", LIBRARY), r"GNU_STACK .* RW ")


class Version(unittest.TestCase):
    def test_header_and_build_agree(self):
        numbers = re.findall(r"COLL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header())
        with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
            self.assertIn(f"version: '{'.'.join(numbers)}'", file.read())


tap.main()
