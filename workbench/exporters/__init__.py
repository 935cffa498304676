"""Rows out of a case for the tools that people already have."""

from __future__ import annotations
