"""Every async test runs on asyncio and on trio."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Timings are never asserted: a slow machine is no failure.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"debug": True}), id="asyncio"),
        pytest.param(("trio", {"restrict_keyboard_interrupt_to_checkpoints": True}), id="trio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """The backend and its options."""
    return request.param


@pytest.fixture(autouse=True)
def strict_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transition that the table does not have is an error here, not a line in a log."""
    from loopwright.engine import Machine

    monkeypatch.setattr(Machine, "strict", True)
