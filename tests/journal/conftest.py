"""Fixtures of the journal's tests."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def no_sync(monkeypatch):
    """Leave out the syncs: for sweeps over bytes, where thousands of them would only take time."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
