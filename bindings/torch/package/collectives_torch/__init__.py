# SPDX-License-Identifier: Apache-2.0
# Makes the backend "coll" known to torch.distributed.
"""PyTorch's process groups over libcollectives: torch.distributed.init_process_group("coll")."""
import functools

import torch
import torch.distributed as dist

try:
    from collectives_torch import _extension
    built_for = _extension.built_for
except ImportError as error:
    raise ImportError(f"collectives_torch does not load with PyTorch {torch.__version__}. If it was "
                      "built for another version, build its wheel again.") from error
if torch.__version__.split(".")[:2] != built_for.split("."):
    raise ImportError(f"collectives_torch was built for PyTorch {built_for}, this is "
                      f"{torch.__version__}: build its wheel again")

from collectives_torch._extension import Options, make_group  # pylint: disable=wrong-import-position

__all__ = ["Options", "register", "stand_for", "stats"]


def register():
    """Registers the backend. Newer versions of PyTorch call this when they meet the name "coll";
    with older ones `import collectives_torch` is enough."""
    if "COLL" not in dist.Backend._plugins:
        dist.Backend.register_backend(
            "coll", functools.partial(make_group, name="coll"), extended_api=True, devices=["cpu"])


def stand_for(name):
    """Takes the place of another backend, such as "gloo", for programs that ask for it by name. To
    the profiler and getBackendName() its groups are of that name."""
    dist.Backend._plugins[name.upper()] = dist.Backend._BackendPlugin(
        functools.partial(make_group, name=name), True)


def stats(group=None):
    """What the group's operations on the CPU have done on this rank: "operations" that succeeded,
    "bytes_sent" to other ranks and "bytes_received" from them."""
    group = group or dist.group.WORLD
    return group._get_backend(torch.device("cpu")).stats()


register()
