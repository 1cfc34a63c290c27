# SPDX-License-Identifier: Apache-2.0
# Coll-info says what is here, hides the secret, and refuses what it does not know.
"""usage: coll_info_test.py COLL_INFO"""
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

COLL_INFO = sys.argv[1]


def run(*arguments, **knobs):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COLL_")}
    return subprocess.run([COLL_INFO, *arguments], env=environment | knobs, capture_output=True,
                          text=True, check=False, timeout=60)


def huge_bytes_had():
    """What this process gets of 8 MiB, where it asks for huge pages."""
    room = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room.madvise(mmap.MADV_HUGEPAGE)
    room.write(b"x" * len(room))
    with open("/proc/self/smaps", encoding="ascii", errors="replace") as smaps:
        return sum(int(line.split()[1]) << 10 for line in smaps if line.startswith("AnonHugePages:"))


class CollInfo(unittest.TestCase):
    def test_the_overview(self):
        done = run(COLL_LANES="3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for start in ("libcollectives ", "machine: ", "huge pages: ", "network interfaces: ", "transport shm: viable",
                      "transport tcp: viable", "knob COLL_LANES=3"):
            self.assertRegex(done.stdout, rf"(?m)^{start}")

    def test_json_has_it_all(self):
        info = json.loads(run("--json", COLL_LANES="3").stdout)
        self.assertEqual(info["machine"]["cores"], len(os.sched_getaffinity(0)))
        cache = "/sys/devices/system/cpu/cpu0/cache/index3"
        bytes_there = 0
        if os.path.exists(cache):  # what one cache has, not all of a package together
            with open(f"{cache}/size", encoding="ascii") as size:
                bytes_there = int(size.read().strip()[:-1]) << 10
        self.assertEqual(info["machine"]["l3_bytes"], bytes_there)
        self.assertRegex(run().stdout, r"machine: .* L3 [\d.]+ [KM]iB" if bytes_there else "machine: .* L3 unknown")
        self.assertGreaterEqual(info["machine"]["line_ns"], 0)
        self.assertLess(info["machine"]["line_ns"], 100e3)
        self.assertEqual([t["name"] for t in info["transports"]], ["shm", "verbs", "tcp"])
        knobs = {knob["name"]: knob for knob in info["knobs"]}
        self.assertEqual((knobs["COLL_LANES"]["value"], knobs["COLL_LANES"]["set"]), ("3", True))
        self.assertEqual((knobs["COLL_LOG"]["value"], knobs["COLL_LOG"]["set"]), ("warn", False))

    def test_a_line_from_core_to_core(self):
        line = r"(?m)^machine: .*, memory [\d.]+ \w+(, a cache line to another core \d+ ns)?$"
        self.assertRegex(run().stdout, line)  # unknown where other programs are on the cores
        all_cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(all_cores)})
        try:
            self.assertEqual(json.loads(run("--json").stdout)["machine"]["line_ns"], 0)
            self.assertIsNone(re.search(line, run().stdout)[1])
        finally:
            os.sched_setaffinity(0, all_cores)

    def test_huge_pages_are_tried(self):
        pages = json.loads(run("--json").stdout)["machine"]["huge_pages"]
        folder = "/sys/kernel/mm/transparent_hugepage"
        for of, name in (("coll_mem_alloc", "shmem_enabled"), ("own_memory", "enabled")):
            setting = ""
            if os.path.exists(f"{folder}/{name}"):
                with open(f"{folder}/{name}", encoding="ascii") as file:
                    setting = file.read().split("[")[1].split("]")[0]
            row = pages[of]
            self.assertEqual((row["setting"], row["tried_bytes"]), (setting, 4 << 20), of)
            self.assertEqual(row["had_bytes"] % (64 << 10), 0, of)
            self.assertLessEqual(row["had_bytes"], row["tried_bytes"], of)
            if setting in ("", "never", "deny"):
                self.assertEqual(row["had_bytes"], 0, of)
        if os.path.exists(folder) and huge_bytes_had() > 0:
            self.assertGreater(pages["own_memory"]["had_bytes"], 0)
        part = {0: "no", 4 << 20: "yes"}.get(pages["own_memory"]["had_bytes"], r"\d of 4 MiB")
        self.assertRegex(run().stdout, rf"(?m)^huge pages: .*, other memory that asks for them {part} \(")

    def test_the_secret_stays_one(self):
        for form in ([], ["--json"], ["--knobs"], ["--markdown"]):
            done = run(*form, COLL_SECRET="hunter2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("hunter2", done.stdout + done.stderr)

    def test_a_machine_as_text_json_and_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "machine.svg")
            line = "host:2 package:2 gpu:4 nvlink:all nic:2@400G"
            text = run("--topology", line, "--svg", picture)
            self.assertEqual((text.returncode, text.stderr), (0, ""))
            self.assertRegex(text.stdout, r"(?m)\A2 x host(.|\n)*^hash: [0-9a-f]{16}$")
            with open(picture, encoding="utf-8") as file:
                shapes = xml.etree.ElementTree.parse(file).getroot()
            texts = [each.text for each in shapes.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("2 x host", texts)
            self.assertIn("GPU3", texts)
            everything = json.loads(run("--topology", line, "--json").stdout)
            self.assertIn(f"hash: {everything['found']['hash']}", text.stdout)
            self.assertEqual(everything["found"]["best_ring"]["order"], [0, 1, 2, 3])
            self.assertEqual(len(everything["found"]["nic_rings"]), 2)
            self.assertNotIn("leaves by", text.stdout)
            self.assertIn("NIC0, leaves by NIC1: 0 1, 50 GB/s",
                          run("--topology", "package:2 gpu:2 nic:2@400G pcie:5x16").stdout)
            with open(os.path.join(folder, "again.json"), "w", encoding="utf-8") as file:
                json.dump(everything, file)
            again = run("--topology", file.name)
            self.assertEqual((again.returncode, again.stdout), (0, text.stdout), again.stderr)
            done = run("--topology", line, "--svg", os.path.join(folder, "none", "machine.svg"))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"\Acoll-info: cannot write .*: No such file")

    def test_huge_machines_end_soon(self):
        done = run("--topology", "gpu:3000 nvlink:all")  # within the time limit of run
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("more than 4194304 parts and links", done.stderr)
        for line, left in (("gpu:3000 nvlink:ring", "3000 GPUs in a host are more than 256: no ring"),
                           ("gpu:64 nvlink:allx1024", "of 64512 at most, the search was cut short"),
                           ("gpu:16 nvlink:ring nic:1000", "together, the search was cut short")):
            done = run("--topology", line)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(left, done.stdout)
        self.assertNotIn("cut short", run("--topology", "gpu:16 nvlink:all nic:16").stdout)

    def test_refusals(self):
        done = run("--wat")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Acoll-info: .*--wat.*\n\Z")
        done = run(COLL_LANES="many")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Acoll-info: .*COLL_LANES=many.*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
