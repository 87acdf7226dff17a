"""The supervisor's line to one sandboxed process: JSON packets over a socket, bulk data as memory files.

Everything that arrives is checked here for size and shape and nothing more; what it means is for those who asked. It has the
only clock that counts: a packet that is not here when the time is up has not been sent. What the process prints is drained
meanwhile, and its end kept for people.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.inert import tail
from runners import Outcome
from runners.local import Box, Confinement, Program

PACKET = 65536  # bytes
TAIL = 2000  # characters of output kept
FROZEN = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
SIZED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW  # writable, but cannot be cut from under a reader


class Failed(Exception):
    """The candidate failed the measurement: an outcome other than ok, and why, in words for people."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.log = ""  # what the process that failed printed last
        self.spent: dict[str, Any] = {}  # what it cost until then, under the names of a measurement


class Late(Exception):
    """Nothing came in time."""


class Gone(Exception):
    """The process ended, or closed its line."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """One message of the process, not trusted. `fds` are ours to close."""

    message: dict[str, Any]
    fds: tuple[int, ...] = ()

    @property
    def say(self) -> str:
        return str(self.message.get("say"))

    def drop(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Child:
    """One single-use sandboxed process that speaks the protocol of trainer/session.py."""

    def __init__(self, session: Path, role: str, how: Confinement, environment: tuple[tuple[str, str], ...] = ()) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = (str(theirs.fileno()), role)
            self.box = Box(Program(script=session, arguments=arguments, fds=(theirs.fileno(),), environment=environment), how)
        self._printed = bytearray()
        self._hello: dict[str, Any] | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def ready(self, seconds: float) -> dict[str, Any]:
        """Wait until its imports are done. What it says then is true: nothing of the candidate has run yet."""
        if self._hello is None:
            packet = self.hear(time.monotonic() + seconds)
            packet.drop()
            self._hello = packet.message
        return self._hello

    @property
    def is_ready(self) -> bool:
        return self._hello is not None

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._socket, [json.dumps(message).encode()], list(fds), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # it is gone, or does not listen
            raise Gone from None

    def hear(self, until: float, look: Callable[[], float] = lambda: math.inf) -> Packet:
        """The next packet. Raises Late at monotonic second `until`, Gone, or Failed when it is no packet of ours.

        Meanwhile `look` is called, which says after how many seconds it wants to be called again.
        """
        poll = select.poll()
        for fd in (self._socket.fileno(), self.box.output, self.box.pidfd):
            poll.register(fd, select.POLLIN)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise Late
            ready = {fd for fd, _ in poll.poll(min(left, max(0.0, look())) * 1000 + 1)}
            if self.box.output in ready and not self._drain():
                poll.unregister(self.box.output)
            if self._socket.fileno() in ready:
                return self._receive(until)
            if self.box.pidfd in ready:
                raise Gone

    def _receive(self, until: float) -> Packet:
        space = socket.CMSG_SPACE(4 * 8)
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            data, ancillary, got, _ = self._socket.recvmsg(PACKET, space, flags)
        except OSError:
            raise Gone from None
        fds = tuple(fd for _, _, raw in ancillary for fd in memoryview(raw[: len(raw) // 4 * 4]).cast("i"))
        message = None
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(data)
        packet = Packet(message=message if isinstance(message, dict) else {}, fds=fds)
        if not data or time.monotonic() > until:
            packet.drop()
            raise Late if data else Gone
        if not packet.message or got & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            packet.drop()
            raise Failed(Outcome.INVALID, "it sent the judge something that is not a packet of the session")
        return packet

    def _drain(self) -> bool:
        """Read what it printed; False at the end of its output."""
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self.box.output, 65536)
            self._printed += chunk
            del self._printed[: -4 * TAIL]
            return bool(chunk)
        return True

    def kill(self) -> int:
        """Kill it with everything that it started. Its exit status, negative or 128 + n for a signal."""
        status = self.box.kill()
        for _ in range(64):  # what a pipe can hold, and an end even when somebody holds the other end
            if not self._drain():
                break
        return status

    def close(self) -> None:
        self.box.close()
        self._socket.close()

    def tail(self) -> str:
        """The last lines that it printed, made inert."""
        return tail(self._printed.decode(errors="replace"), TAIL)


def frozen(name: str, data: bytes | memoryview) -> int:
    """A memory file with this content that nobody can change any more."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    while len(view):
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, FROZEN)
    return fd


def shared(name: str, size: int) -> tuple[int, mmap.mmap]:
    """A memory file of fixed size that both sides may write."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SIZED)
    return fd, mmap.mmap(fd, size)


def copied(fd: int) -> int:
    """A frozen copy. Two processes that share a file can talk: by its offset, by locks, by its content unless that is sealed."""
    size = os.fstat(fd).st_size
    if not size:
        return frozen("copy", b"")
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as content:
        return frozen("copy", memoryview(content))


def is_frozen(fd: int) -> bool:
    """Whether it is a memory file that its sender cannot change any more."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GET_SEALS) & FROZEN == FROZEN
    except OSError:
        return False
