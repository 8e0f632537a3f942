"""HTTP as the models use it: a tiny transport interface with two implementations, imported when used."""

from __future__ import annotations

from .pool import TransportName, close_shared_transports, shared_transport
from .transport import HTTPResponse, Timeouts, Transport

__all__ = [
    "HTTPResponse",
    "Timeouts",
    "Transport",
    "TransportName",
    "close_shared_transports",
    "shared_transport",
]
