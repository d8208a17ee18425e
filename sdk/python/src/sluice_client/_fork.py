"""A child of os.fork has none of its parent's threads, and must not use its connections and locks."""

import os
import weakref
from typing import Any

_forkable: "weakref.WeakSet[Any]" = weakref.WeakSet()


def track(thing: Any) -> None:
    """Calls thing._after_fork in every child that the process forks from now on."""
    _forkable.add(thing)


def _after_fork() -> None:
    for thing in list(_forkable):
        thing._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
