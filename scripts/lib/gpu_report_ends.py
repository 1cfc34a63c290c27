# SPDX-License-Identifier: Apache-2.0
# How a part of `scripts/gpu-report` ends that did not just run.


class Missing(Exception):
    """The part is not there, or was not begun."""


class LeftOut(Exception):
    """The part cannot be here, and nothing is wrong."""


class Failed(Exception):
    """The part ran, and something was wrong."""
