"""What several tests of the recorder stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capture import one_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make capture` fills."""
    reason = one_file.why_not_built()
    if reason is not None:
        pytest.skip(reason)
    return one_file.build(tmp_path_factory.mktemp("here"))
