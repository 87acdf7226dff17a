"""Questions that take long, such as one to a model: asked beside the loop, which goes on, sees a stop and takes the answer later.

    asked("1: propose", begin)  ->  None as long as there is no answer, then the answer, once

`begin` is called in the thread of the loop with what was paid for answers that nobody has taken, since no log knows of it, and
reads there all that the question needs. What it returns is called in a thread of its own, one at a time. That thread writes
nothing: an answer has an effect only through whoever takes it. `AtOnce` is the same for who may wait. Not here: what is asked
(proposing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol, TypeVar

from bot.spending import FREE, Meter, Spent

T = TypeVar("T")
Begin = Callable[[Spent], Callable[[], T]]


class Asked(Protocol):
    def __call__(self, key: str, begin: Begin[T]) -> T | None:
        """The answer to the question of that name, or None for now. Raises what the question raised."""

    def keep(self, key: str, answer: object) -> None:
        """It could not be used yet: it is the answer of the next time, and nobody is asked."""

    def close(self) -> Spent:
        """Ask no more; what calls have cost, or can cost at most, whose answers nobody has taken."""


class AtOnce:
    """Waits for each answer."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def __call__(self, key: str, begin: Begin[T]) -> T | None:
        return self._kept.pop(key) if key in self._kept else begin(FREE)()

    def keep(self, key: str, answer: object) -> None:
        self._kept[key] = answer

    def close(self) -> Spent:
        return FREE


class Aside:
    """Waits for none. A daemon thread, since no call can be ended from outside: the process does not wait for it either."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._open: dict[str, _Question] = {}
        self._taken = FREE
        self._kept: dict[str, Any] = {}

    def __call__(self, key: str, begin: Begin[T]) -> T | None:
        if key in self._kept:
            return self._kept.pop(key)  # type: ignore[no-any-return]
        question = self._open.get(key)
        if question is None and not any(other.is_alive() for other in self._open.values()):
            self._open[key] = _Question(begin(self._meter.most - self._taken), self._meter)
        if question is None or question.is_alive():
            return None
        del self._open[key]
        if question.error:
            raise question.error
        self._taken += question.cost
        return question.answer  # type: ignore[no-any-return]

    def keep(self, key: str, answer: object) -> None:
        self._kept[key] = answer

    def close(self) -> Spent:
        self._meter.closed = True
        owed = self._meter.most - self._taken
        self._taken += owed
        return owed


class _Question(Thread):
    """One of them, under way."""

    def __init__(self, ask: Callable[[], Any], meter: Meter) -> None:
        super().__init__(daemon=True)
        self._ask, self._meter = ask, meter
        self.answer: Any = None
        self.error: BaseException | None = None
        self.cost = FREE
        self.start()

    def run(self) -> None:
        before = self._meter.most
        try:
            self.answer = self._ask()
        except BaseException as error:  # noqa: BLE001  it is raised where the answer is taken
            self.error = error
        self.cost = self._meter.most - before
