"""Observing runs: integrations are told of every run, and never alter one."""

from __future__ import annotations

from .integration import Integration, TelemetryEvent, TelemetrySettings, register_integration

__all__ = ["Integration", "TelemetryEvent", "TelemetrySettings", "register_integration"]
