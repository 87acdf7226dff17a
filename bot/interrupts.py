"""Ctrl-C and the polite ways to be killed, without ever stopping half-way through a deed.

Ordinarily a signal raises KeyboardInterrupt where it strikes, as Python does for Ctrl-C. While `held`, it is only noted, and
`check`, called between two deeds, raises it. So no git process is killed while it holds a lock file.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Does nothing until `install` is called: a test, or a library, keeps its own handlers."""

    def __init__(self) -> None:
        self._seen = False
        self._held = False

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._on)

    def _on(self, number: int, frame: FrameType | None) -> None:
        self._seen = True
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until `check`."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raises KeyboardInterrupt when a signal came."""
        if self._seen:
            raise KeyboardInterrupt
