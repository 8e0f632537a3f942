"""Telling a run to stop, from any task or thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .errors import RunCancelled

__all__ = ["AbortSignal"]


class AbortSignal:
    """A switch that goes from "go on" to "stop" once, and tells its listeners.

    Every method may be called from any thread.
    """

    __slots__ = ("__weakref__", "_detach", "_listeners", "_lock", "_reason")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: object = None
        self._listeners: dict[object, Callable[[], object]] | None = {}
        self._detach: list[Callable[[], None]] = []

    @property
    def aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._listeners is None

    @property
    def reason(self) -> object:
        """What `abort` was given; None while not aborted."""
        return self._reason

    @property
    def listener_count(self) -> int:
        """How many listeners wait."""
        listeners = self._listeners
        return 0 if listeners is None else len(listeners)

    def abort(self, reason: object = None) -> bool:
        """Stop. Listeners are called once, in this thread; one that raises does not stop the others.

        Args:
            reason: Any object; a `RunCancelled` is raised as it is. Default: a `RunCancelled`.

        Returns:
            False when it was aborted before: then nothing happens, and the first reason stays.
        """
        with self._lock:
            listeners = self._listeners
            if listeners is None:
                return False
            self._reason = RunCancelled() if reason is None else reason
            self._listeners = None
            detach, self._detach = self._detach, []
        for undo in detach:
            undo()
        failures: list[Exception] = []
        for listener in listeners.values():
            try:
                listener()
            except Exception as error:
                failures.append(error)
        if failures:
            raise ExceptionGroup("The signal is aborted and all listeners were called; some raised", failures)
        return True

    def raise_if_aborted(self) -> None:
        """Raise `RunCancelled` with the reason if `abort` was called.

        Raises:
            RunCancelled: The reason itself where it is one.
        """
        if self._listeners is None:
            raise self.error()

    def error(self) -> RunCancelled:
        """The error that stands for the reason."""
        reason = self._reason
        if isinstance(reason, RunCancelled):
            return reason
        error = RunCancelled(reason)
        if isinstance(reason, BaseException):
            error.__cause__ = reason
        return error

    def add_listener(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when `abort` is called; at once if it was.

        Args:
            listener: Runs in the thread that aborts. It must be quick.

        Returns:
            Takes the listener away again; may be called more than once.
        """
        key = object()
        with self._lock:
            listeners = self._listeners
            if listeners is not None:
                listeners[key] = listener
        if listeners is None:
            listener()
            return _nothing
        return lambda: self._remove(key)

    def _remove(self, key: object) -> None:
        with self._lock:
            if self._listeners is not None:
                self._listeners.pop(key, None)

    @classmethod
    def any(cls, *signals: AbortSignal) -> AbortSignal:
        """A new signal that is aborted, with the same reason, as soon as one of `signals` is.

        The links to the sources go away when it is aborted or closed.
        """
        combined = cls()
        for signal in signals:
            undo = signal.add_listener(lambda source=signal: combined.abort(source.reason))  # type: ignore[misc]
            with combined._lock:
                still_waits = combined._listeners is not None
                if still_waits:
                    combined._detach.append(undo)
            if not still_waits:
                undo()
                break
        return combined

    def close(self) -> None:
        """Cut the links to the signals that this one was combined from."""
        with self._lock:
            detach, self._detach = self._detach, []
        for undo in detach:
            undo()

    def __repr__(self) -> str:
        return f"<AbortSignal {'aborted' if self.aborted else 'waiting'}>"


def _nothing() -> None:
    pass
