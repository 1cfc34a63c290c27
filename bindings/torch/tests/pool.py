# SPDX-License-Identifier: Apache-2.0
# Ranks for tests: processes that import torch once, join one group, and run functions on demand.
"""A pool forks its ranks from the test's process, which has imported torch and used nothing of it.
All ranks of a pool run the same function at the same time. Where one fails or hangs, the pool shows
every rank's error or stacks and ends its processes; the next task gets a pool of new ones."""
import ctypes
import faulthandler
import importlib
import inspect
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import tempfile
import time
import traceback
import unittest
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

LIMIT = 60.0  # seconds of a task
GRACE = 5.0   # seconds that ranks have after another has failed


class Setting:
    """What a rank knows of its pool: functions that run there read it."""
    backend = "coll"
    seed = 0
    stacks = None


def lacks(*backends, reason):
    """In a rank: skips the test where it runs over one of these backends."""
    if Setting.backend in backends:
        raise unittest.SkipTest(f"{Setting.backend}: {reason}")


def about_to_call(victim):
    """In the ranks of a world that goes on to a call which the victim's death ends. The victim
    returns last: who is still in the call before would fail in that one. Once in a pool."""
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    if rank == victim:
        others = [other for other in range(dist.get_world_size()) if other != victim]
        store.wait([f"{other} calls" for other in others], timedelta(seconds=20))
    else:
        store.set(f"{rank} calls", "")


def join(rank, ranks, port_pipe):
    """Joins the world over a store that rank 0 serves, as under torchrun. Some PyTorch
    builds lack libuv."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, ranks, True, wait_for_workers=False, use_libuv=False)
        port_pipe.send(store.port)
    else:
        store = dist.TCPStore("127.0.0.1", port_pipe.recv(), ranks, False, use_libuv=False)
    dist.init_process_group(Setting.backend, store=store, rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=LIMIT))


def serve(rank, ranks, pipe):
    """A rank's life: joins, then runs tasks until the pipe closes."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a rank ends with its parent
    for number in (1, 2):
        os.dup2(Setting.stacks.fileno(), number)
    faulthandler.enable(Setting.stacks)
    faulthandler.register(signal.SIGUSR1, Setting.stacks, all_threads=True)
    torch.set_num_threads(1)
    join(rank, ranks, pipe)
    while True:
        try:
            module, name, arguments = pickle.loads(pipe.recv_bytes())
        except EOFError:
            os._exit(0)
        try:
            function = getattr(importlib.import_module(module), name)
            torch.manual_seed(Setting.seed)
            answer = "passed", getattr(function, "body", function)(**arguments)
        except unittest.SkipTest as skip:
            answer = "skipped", str(skip)
        except BaseException:  # pylint: disable=broad-except
            answer = "failed", traceback.format_exc()
        pipe.send_bytes(pickle.dumps(answer))


class Pool:
    def __init__(self, ranks, backend):
        self.ranks, self.backend = ranks, backend
        self.pipes, self.processes, self.outputs = [], [], []
        context = multiprocessing.get_context("fork")
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            Setting.stacks = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
            process = context.Process(target=self._child, args=(rank, theirs, self.pipes + [ours]),
                                      daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
            self.outputs.append(Setting.stacks)
        if self.pipes[0].poll(LIMIT):
            port = self.pipes[0].recv()
            for pipe in self.pipes[1:]:
                pipe.send(port)

    def _child(self, rank, pipe, others):
        for other in others:
            other.close()
        Setting.backend = self.backend
        serve(rank, self.ranks, pipe)

    def run(self, function, limit=LIMIT, dies=(), **arguments):
        """Runs a module's function on all ranks and returns their results; None of those that die
        of SIGKILL, as they must."""
        task = pickle.dumps((function.__module__, function.__name__, arguments))
        for pipe in self.pipes:
            try:
                pipe.send_bytes(task)
            except OSError:
                pass  # the rank has died: collect() says so
        answers = self.collect(time.monotonic() + limit)
        for rank in dies:
            if self.processes[rank].exitcode == -signal.SIGKILL:
                answers[rank] = "passed", None
            else:
                answers[rank] = "failed", "did not die"
        failed = [f"rank {rank} {answers[rank][1]}" for rank in sorted(answers)
                  if answers[rank][0] == "failed"]
        if failed:
            outputs = [self.output(rank) for rank in range(self.ranks)]
            self.end()
            pytest.fail("\n".join(failed + outputs), pytrace=False)
        skipped = [answer[1] for answer in answers.values() if answer[0] == "skipped"]
        if len(skipped) == self.ranks:
            pytest.skip(skipped[0])
        assert not skipped, f"only some ranks skipped: {skipped}"
        return [answers[rank][1] for rank in range(self.ranks)]

    def collect(self, end):
        """Rank -> answer. A rank that dies, or is not done in time, has failed."""
        answers, waiting = {}, set(range(self.ranks))
        while waiting:
            left = end - time.monotonic()
            if left <= 0:
                break
            ready = multiprocessing.connection.wait([self.pipes[rank] for rank in waiting], left)
            for rank in [rank for rank in waiting if self.pipes[rank] in ready]:
                try:
                    answers[rank] = pickle.loads(self.pipes[rank].recv_bytes())
                except (EOFError, OSError):
                    self.processes[rank].join(GRACE)
                    answers[rank] = "failed", f"ended with {self.processes[rank].exitcode}"
                waiting.discard(rank)
                if answers[rank][0] == "failed":  # also of one that died as it had to
                    end = min(end, time.monotonic() + GRACE)
        for rank in waiting:
            os.kill(self.processes[rank].pid, signal.SIGUSR1)
            self.processes[rank].join(0.5)  # time to write the stacks; it does not end
            answers[rank] = "failed", "hangs"
        return answers

    def output(self, rank):
        file = self.outputs[rank]
        file.seek(max(0, file.seek(0, os.SEEK_END) - 6000))
        text = file.read().decode(errors="replace")
        return f"--- output and stacks of rank {rank}\n{text}" if text else ""

    def end(self):
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.kill()
            process.join()
        self.processes = []


class Pools:
    """A pool of one backend for each number of ranks; a new one where the last has ended."""
    def __init__(self, backend):
        self.backend, self.by_size = backend, {}

    def __getitem__(self, ranks):
        pool = self.by_size.get(ranks)
        if pool is None or not all(process.is_alive() for process in pool.processes) \
                or not pool.processes:
            if pool is not None:
                pool.end()
            pool = self.by_size[ranks] = Pool(ranks, self.backend)
        return pool

    def end(self):
        for pool in self.by_size.values():
            pool.end()


def on_ranks(*sizes, more=(), limit=LIMIT):
    """Makes a test of a function that runs on all ranks of a pool, once for each size. Sizes in
    `more` run with --all only."""
    def decorate(body):
        def test(pools, ranks, **arguments):
            pools[ranks].run(test, limit, **arguments)

        names = ["pools", "ranks"] + list(inspect.signature(body).parameters)
        test.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])
        test.__name__, test.__qualname__ = body.__name__, body.__qualname__
        test.__module__, test.__doc__, test.body = body.__module__, body.__doc__, body
        test.pytestmark = list(getattr(body, "pytestmark", []))
        return pytest.mark.parametrize(
            "ranks", [*sizes, *(pytest.param(size, marks=pytest.mark.slow) for size in more)])(test)
    return decorate
