# SPDX-License-Identifier: Apache-2.0
# The documents say what the code does.
import os
import re
import subprocess
import sys
import unittest

import tap

ROOT, BUILD = sys.argv[1:3]


def documents():
    for place, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        for name in names:
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(place, name), ROOT)


class Documents(unittest.TestCase):
    def test_generated_parts_are_up_to_date(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/update-docs"), "--check", BUILD],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_knob_that_is_named_exists(self):
        known = set(re.findall(r"^(COLL_\w+) ", subprocess.run(
            [os.path.join(BUILD, "perf/coll-info"), "--knobs"], capture_output=True, text=True,
            check=True).stdout, re.M))
        with open(os.path.join(ROOT, "include/collectives/collectives.h"), encoding="utf-8") as file:
            known |= set(re.findall(r"COLL_[A-Z_]+", file.read()))
        with open(os.path.join(ROOT, "include/collectives/types.h"), encoding="utf-8") as file:
            known |= set(re.findall(r"COLL_[A-Z0-9_]+", file.read()))
        with open(os.path.join(ROOT, "src/base/status.hpp"), encoding="utf-8") as file:
            known |= set(re.findall(r"define (COLL_\w+)", file.read()))
        known |= {"COLL_TEST_SEED", "COLL_CHECK"}
        for path in documents():
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                named = set(re.findall(r"\bCOLL_[A-Z0-9_]*[A-Z0-9]\b", file.read()))
            self.assertFalse(named - known, f"{path} names what does not exist")

    def test_links_to_files_lead_somewhere(self):
        for path in documents():
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read())
            for link in links:
                target = os.path.join(ROOT, os.path.dirname(path), link)
                self.assertTrue(os.path.exists(target), f"{path}: {link}")


tap.main()
