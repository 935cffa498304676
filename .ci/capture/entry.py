"""Start of capture.pyz: any Python can read it, one from 3.9 on runs the recorder."""

# An old Python must come as far as the sentence: nothing here that it does not know.
# ruff: noqa: I002, INP001, UP031, UP036
import sys

if sys.version_info < (3, 9):
    sys.exit(
        "coldtrace-capture: error: this is Python %d.%d, and 3.9 or later is needed\n"
        "coldtrace-capture: hint: try python3.9, python3.11 or python3.12"
        % sys.version_info[:2]
    )

from capture.__main__ import main

sys.exit(main())
