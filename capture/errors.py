"""Errors that the recorder tells its user about: what is wrong, and what to do next."""

from __future__ import annotations


class CaptureError(Exception):
    """Something that stops the recorder, with the one thing to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
