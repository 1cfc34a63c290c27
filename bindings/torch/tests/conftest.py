# SPDX-License-Identifier: Apache-2.0
# The options of the tests, and the pools of ranks they share.
import importlib.util
import os
import random

import pytest

import pool as ranks_pool


def pytest_addoption(parser):
    parser.addoption("--backend", default="coll", help="the backend under test")
    parser.addoption("--all", action="store_true", help="also the slow tests")
    parser.addoption("--need-packages", action="store_true",
                     help="fail, and do not skip, where a package is missing")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs with --all only")
    seed = os.environ.get("COLL_TEST_SEED") or random.randrange(2**31)
    ranks_pool.Setting.backend = config.getoption("--backend")
    ranks_pool.Setting.seed = int(seed)


def pytest_report_header():
    return f"backend {ranks_pool.Setting.backend}, COLL_TEST_SEED={ranks_pool.Setting.seed}"


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--all"):
        config.hook.pytest_deselected(items=[item for item in items if "slow" in item.keywords])
        items[:] = [item for item in items if "slow" not in item.keywords]


@pytest.fixture(scope="session")
def backend():
    return ranks_pool.Setting.backend


@pytest.fixture(scope="session")
def need(request):
    """A function that skips the test, or with --need-packages fails it, where a package is
    missing."""
    end = pytest.fail if request.config.getoption("--need-packages") else pytest.skip

    def check(*packages):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                end(f"{package} is missing; scripts/torch test installs it")
    return check


@pytest.fixture(scope="session")
def pools(backend):
    made = ranks_pool.Pools(backend)
    yield made
    made.end()


@pytest.fixture(scope="module")
def sides(backend):
    """Ranks -> the pools of gloo and of the backend under test."""
    made = [ranks_pool.Pools(name) for name in ("gloo", backend)]
    yield lambda ranks: [pools[ranks] for pools in made]
    for pools in made:
        pools.end()
