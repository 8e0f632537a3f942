"""Loopwright: the framework that people subclass to put agents into real programs."""

from __future__ import annotations
