# SPDX-License-Identifier: Apache-2.0
# The arrows between the rooms, and the habits of files: unique names, a licence, a sentence, one
# concept's length.
import os
import re
import sys
import unittest

import tap

ROOT = sys.argv[1]

# A room may include what its row names, and what those may include in turn. A room is a folder; a
# folder inside it with a row of its own is a room too, and so is the one file that has a row.
# `transports` is the interface; each transport is a room that sees none of its siblings.
ARROWS = {
    "include": ["types"],
    "base": ["types"],
    "sys": ["base"],
    "sys/net": ["sys"],
    "sys/verbs": ["sys/net"],
    "sys/cuda": ["sys"],
    "sys/memory": ["sys/cuda"],
    "sys/machine": ["sys/memory"],
    "reduce": ["base"],
    "reduce/device": ["base"],
    "topology/layout.hpp": ["base"],
    "topology": ["topology/layout.hpp"],
    "topology/read": ["topology", "sys/machine", "sys/verbs"],
    "topology/rings": ["topology"],
    "topology/picture": ["topology"],
    "schedule": ["base"],
    "schedule/proof": ["schedule"],
    "schedule/simulate": ["schedule"],
    "transports": ["base"],
    "transports/*": ["transports", "sys/memory", "sys/net"],
    "transports/shm": ["transports", "sys/memory", "sys/net", "sys/machine"],
    "transports/dial": ["transports", "sys/net"],
    "transports/tcp": ["transports/dial", "sys/machine"],
    "transports/verbs": ["transports/dial", "sys/memory", "sys/verbs"],
    "collectives": ["schedule", "topology/layout.hpp"],
    "collectives/trees": ["collectives"],
    "collectives/hierarchical": ["collectives"],
    "planner/costs": ["topology/layout.hpp"],
    "planner": ["planner/costs", "collectives", "schedule/simulate", "topology/rings", "sys/machine"],
    "planner/networks": ["planner"],
    "executor": ["schedule", "transports", "reduce"],
    "executor/device": ["executor", "sys/cuda", "reduce/device"],
    "executor/device/fused": ["executor/device"],
    "rendezvous/stores": ["sys"],
    "rendezvous": ["rendezvous/stores", "sys/net"],
    "rendezvous/exchange": ["rendezvous"],
    "rendezvous/launch": ["rendezvous"],
    "control": ["rendezvous/exchange"],
    "watch": ["control"],
    "communicator/membership": ["planner/networks", "transports/*", "executor/device", "executor/device/fused", "watch", "topology/read"],
    "communicator/calls": ["communicator/membership", "executor"],
    "communicator/mail": ["communicator/calls"],
    "communicator/engine": ["communicator/mail"],
    "communicator": ["communicator/engine"],
    "c_api": ["communicator", "rendezvous/launch", "include"],
    "perf": ["include", "planner/networks", "schedule/proof", "topology/read", "topology/picture"],
    "examples": ["include"],
    "training/math": [],
    "training/memory": ["include"],
    "training/model": ["training/math", "training/memory"],
    "training/layout": ["training/model"],
    "training/optimizer": ["training/layout", "training/memory"],
    "training/offload": ["training/optimizer"],
    "training/parallel": ["training/layout", "training/memory"],
    "training/hooks": ["training/parallel"],
    "training/data": ["training/math", "training/memory"],
    "training/trainer": ["training/parallel", "training/offload", "training/data"],
    "training/asynchronous": ["training/trainer"],
    "training/estimate": ["training/trainer"],
    "training/measure": ["training/trainer"],
    "training/checkpoint": ["training/optimizer"],
    "training/safetensors": ["training/checkpoint"],
    "training/report/writing": ["training/memory"],
    "training/report/charts": ["training/report/writing"],
    "training/report": ["training/math", "training/report/charts"],
    "training": ["training/estimate", "training/safetensors", "training/report", "training/offload",
                 "training/measure", "training/hooks", "training/asynchronous"],
    "bindings": ["include"],
    "compat": ["include"],
}
# Files that see every room: they measure or describe the rooms themselves.
SEES_ALL = re.compile(r"perf/(benchmarks/|coll_info/|coll_tune/coll_tune_world\.cpp$)|tests/")

FOLDERS = ["src", "include", "cmake", "perf", "tests", "examples", "scripts", "training", "bindings",
           "compat"]
CODE = (".cpp", ".hpp", ".h", ".c", ".cu", ".cuh")
LONGEST = 400  # lines of a file
MOST = 25  # files of a room, meson.build apart
# Longer files, each with its reason.
LONG = {
    "include/collectives/collectives.h": "the whole C interface, one function after another",
    "include/collectives/collectives.hpp": "the whole C++ interface, one class after another",
    "tests/transports/conformance/transport_conformance.hpp": "one suite, read from top to bottom",
    "tests/rendezvous/rendezvous_test.cpp": "every way a meeting can go wrong, one short case each",
    "tests/watch/watch_test.cpp": "every way ranks can part, one short case each",
}
# Every folder may have one of these.
COMMON_NAMES = {"meson.build", "README.md", "CMakeLists.txt", "Makefile"}


def files():
    for folder in FOLDERS:
        for place, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [f for f in folders if f not in ("__pycache__", "subprojects")
                          and not f.startswith("build")]
            for name in names:
                yield os.path.relpath(os.path.join(place, name), ROOT)


FILES = sorted(files())


def lines_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read().splitlines()


def room_of(path):
    """The room a file of the repository belongs to, as ARROWS names rooms."""
    parts = path.split("/")
    if path == "include/collectives/types.h":
        return "types"
    if parts[0] == "training" and os.path.dirname(path) in ARROWS:
        return os.path.dirname(path)
    if parts[0] != "src":
        return parts[0]
    inner = "/".join(parts[1:])
    if inner in ARROWS:
        return inner
    folder = os.path.dirname(inner)
    return folder if row_of(folder) in ARROWS else parts[1]


def row_of(room):
    return "transports/*" if room.startswith("transports/") and room not in ARROWS else room


def reachable(room):
    """Every room that `room` may include, itself too."""
    seen, todo = {room}, list(ARROWS.get(row_of(room), []))
    while todo:
        below = todo.pop()
        if below not in seen:
            seen.add(below)
            todo += ARROWS.get(below, [])
    return seen


def allowed(room, target_room):
    reach = reachable(room)
    return target_room in reach or (target_room.startswith("transports/") and "transports/*" in reach
                                    and not room.startswith("transports/"))


def resolve(path, include):
    """The repository's file that a quoted or angled include names; None for the system's."""
    for base in (os.path.dirname(path), "src", "include", "perf", "tests"):
        found = os.path.normpath(os.path.join(base, include))
        if os.path.isfile(os.path.join(ROOT, found)):
            return found
    return None


def includes(path):
    for number, line in enumerate(lines_of(path), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if match:
            yield number, match[1] == '"', match[2]


TYPE = re.compile(r"(?:template <.*> )?(?:struct|class|enum class|enum(?! class)|union) "
                  r"(?:\[\[.*\]\] |\w+\(.*\) )?(\w+)\b(?!::)[^;(]*(?:\{|$)")


def types_of(lines):
    """The types that a file defines in named namespaces, and not inside another type. What is in an anonymous
    namespace belongs to its file, so such names may come again elsewhere."""
    anonymous = False
    for line in lines:
        if line in ("namespace {", "}  // namespace"):
            anonymous = line == "namespace {"
        match = TYPE.match(line)
        if match and not anonymous:
            yield match[1]


class Names(unittest.TestCase):
    def test_a_type_is_defined_once(self):
        """In src, and in perf, which has a namespace of its own."""
        where, twice = {}, []
        for path in FILES:
            tree = path.split("/")[0]
            if tree not in ("src", "perf") or not path.endswith(CODE):
                continue
            for name in types_of(lines_of(path)):
                if where.setdefault((tree, name), path) != path:
                    twice.append(f"{name}: {where[tree, name]} and {path}")
        self.assertGreater(len(where), 300, "it sees the types")
        self.assertFalse(twice, "\n".join(["two types of one name:", *twice]))

    def test_the_check_sees_types_and_no_others(self):
        text = """namespace coll {
class Ahead;
struct One {
  struct Inside {
class Two final
    : public One {
enum class Three : int { four };
template <class T> struct Five { T t; };
struct alignas(64) Six {
struct One::Inside {
struct sockaddr_in address() {
namespace {
struct Hidden {
}  // namespace
struct Seven {};
"""
        self.assertEqual([*types_of(text.splitlines())], ["One", "Two", "Three", "Five", "Six", "Seven"])


class Layering(unittest.TestCase):
    def test_rooms_include_only_what_stands_below_them(self):
        wrong = []
        for path in FILES:
            if not path.endswith(CODE) or SEES_ALL.match(path):
                continue
            room = room_of(path)
            self.assertIn(row_of(room), [*ARROWS, "types"], f"{path}: a room without arrows")
            for number, quoted, include in includes(path):
                target = resolve(path, include)
                if target is None:
                    if quoted:
                        wrong.append(f"{path}:{number}: \"{include}\" is no file of the repository")
                elif not allowed(room, room_of(target)):
                    wrong.append(f"{path}:{number}: {room} may not include {target}")
        self.assertFalse(wrong, "\n".join(["arrows that the design does not have:", *wrong]))

    def test_the_table_has_no_cycle(self):
        for room in ARROWS:
            for below in reachable(room) - {room}:
                self.assertNotIn(room, reachable(below), f"{room} and {below} include each other")

    def test_sources_are_included_by_their_path_from_src(self):
        wrong = [f"{path}:{number}: write \"{room_of(path).split('/')[0]}/…/{include}\""
                 for path in FILES if path.startswith("src/") and path.endswith(CODE)
                 for number, quoted, include in includes(path)
                 if quoted and not os.path.exists(os.path.join(ROOT, "src", include))]
        self.assertFalse(wrong, "\n".join(wrong))

    def test_the_check_itself_refuses_what_it_should(self):
        self.assertFalse(allowed("transports/shm", "transports/tcp"))
        self.assertFalse(allowed("transports/shm", "schedule"))
        self.assertFalse(allowed("executor", "transports/shm"))
        self.assertFalse(allowed("base", "sys"))
        self.assertFalse(allowed("collectives", "topology"))
        self.assertFalse(allowed("examples", "base"))
        self.assertTrue(allowed("transports/shm", "transports"))
        self.assertTrue(allowed("communicator", "transports/tcp"))
        self.assertTrue(allowed("planner", "base"))


class Files(unittest.TestCase):
    def test_names_are_unique_in_the_tree(self):
        seen = {}
        for path in FILES:
            name = os.path.basename(path)
            if name not in COMMON_NAMES:
                seen.setdefault(name, []).append(path)
        twice = [paths for paths in seen.values() if len(paths) > 1]
        self.assertFalse(twice, f"one name, several files: {twice}")

    def test_the_first_line_is_the_licence(self):
        wrong = []
        for path in FILES:
            lines = [line for line in lines_of(path)[:2] if not line.startswith("#!")]
            if path.endswith(".json"):
                continue
            if not lines or "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
                wrong.append(path)
        self.assertFalse(wrong, f"no licence in the first line: {wrong}")

    def test_the_head_is_a_sentence_about_the_file(self):
        wrong = []
        for path in FILES:
            if not path.endswith((*CODE, ".py")):
                continue
            lines = [line for line in lines_of(path) if not line.startswith("#!")]
            match = re.match(r"(?://|#|/\*) (.*)", lines[1])
            if not match or len(match[1]) < 12 or not re.match(r"[A-Z0-9`\"\[]|[a-z]+[-_]", match[1]):
                wrong.append(path)
        self.assertFalse(wrong, f"the second line does not say what the file is for: {wrong}")

    def test_docs_name_every_room(self):
        rooms = {os.path.dirname(path) for path in FILES
                 if path.startswith(("src/", "perf/")) and path.endswith(CODE)}
        with open(os.path.join(ROOT, "docs/design.md"), encoding="utf-8") as file:
            named = set(re.findall(r"^((?:src|perf)/[\w/]+)/? ", file.read(), re.MULTILINE))
        self.assertEqual(rooms - {"perf"}, named - {"perf"}, "the table of docs/design.md, Rooms")

    def test_a_room_is_small(self):
        rooms = {}
        for path in FILES:
            if os.path.basename(path) not in COMMON_NAMES:
                rooms.setdefault(os.path.dirname(path), []).append(path)
        wrong = {room: len(files) for room, files in rooms.items() if len(files) > MOST}
        self.assertFalse(wrong, f"rooms of over {MOST} files: {wrong}")

    def test_a_file_is_one_concept_long(self):
        wrong = [f"{path}: {len(lines_of(path))} lines" for path in FILES
                 if path.endswith((*CODE, ".py")) and path not in LONG
                 and len(lines_of(path)) > LONGEST]
        self.assertFalse(wrong, f"over {LONGEST} lines and not listed with a reason: {wrong}")

    def test_long_files_that_are_listed_exist_and_are_long(self):
        for path in LONG:
            self.assertIn(path, FILES)
            self.assertGreater(len(lines_of(path)), LONGEST, f"{path} is short now: unlist it")


tap.main()
