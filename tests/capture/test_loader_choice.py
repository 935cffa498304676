"""Claim: the first loader that works is taken, and every refusal is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from capture import loader_choice
from capture.loaders import LoaderError, LoaderSettings
from capture.options import RecordOptions

if TYPE_CHECKING:
    from collections.abc import Callable


class Tried:
    """A loader that loads, or refuses in words."""

    def __init__(self, refusal: LoaderError | None) -> None:
        self.refusal = refusal
        self.settings: LoaderSettings | None = None
        self.is_closed = False

    def load(self, settings: LoaderSettings) -> None:
        """Refuse, or note the settings."""
        if self.refusal is not None:
            raise self.refusal
        self.settings = settings

    def close(self) -> None:
        """Note the end."""
        self.is_closed = True


Offer = dict[str, Tried]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Offer]:
    """Return a function that puts loaders in place."""

    def offer(**refusals: LoaderError | None) -> Offer:
        loaders = {name: Tried(refusal) for name, refusal in refusals.items()}
        monkeypatch.setattr(loader_choice, "make_loader", loaders.__getitem__)
        return loaders

    return offer


def test_core_is_taken_where_it_works(offered: Callable[..., Offer]) -> None:
    loaders = offered(core=None, bcc=None)
    said: list[str] = []

    loader: Any = loader_choice.open_loader(RecordOptions(), said.append)

    assert loader is loaders["core"]
    assert said == []
    assert loaders["bcc"].settings is None


def test_bcc_is_taken_where_core_refuses_and_the_reason_is_said(
    offered: Callable[..., Offer],
) -> None:
    loaders = offered(core=LoaderError("no BTF"), bcc=None)
    said: list[str] = []

    loader: Any = loader_choice.open_loader(RecordOptions(), said.append)

    assert loader is loaders["bcc"]
    assert said == ["loader core refused: no BTF"]
    assert loaders["core"].is_closed


def test_all_reasons_and_the_first_hint_are_in_the_error(
    offered: Callable[..., Offer],
) -> None:
    offered(core=LoaderError("no BTF"), bcc=LoaderError("no bcc", "install bcc"))

    with pytest.raises(LoaderError, match="core: no BTF; bcc: no bcc") as caught:
        loader_choice.open_loader(RecordOptions(), lambda _: None)

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("install bcc; ")
    assert "--streams none records facts without eBPF" in caught.value.hint


def test_without_streams_nothing_is_loaded(offered: Callable[..., Offer]) -> None:
    loaders = offered(core=None, bcc=None)

    loader = loader_choice.open_loader(RecordOptions(streams=()), lambda _: None)

    assert loader.name == "none"
    assert loaders["core"].settings is None


def test_chosen_loader_alone_is_tried(offered: Callable[..., Offer]) -> None:
    loaders = offered(core=None, bcc=LoaderError("no bcc"))

    with pytest.raises(LoaderError, match="bcc: no bcc"):
        loader_choice.open_loader(RecordOptions(loader="bcc"), lambda _: None)

    assert loaders["core"].settings is None


@pytest.mark.parametrize(
    ("options", "adopts"),
    [(RecordOptions(), True), (RecordOptions(pids=(1,)), False)],
)
def test_first_hits_make_targets_only_where_every_user_is_one(
    offered: Callable[..., Offer], options: RecordOptions, *, adopts: bool
) -> None:
    loaders = offered(core=None)

    loader_choice.open_loader(options, lambda _: None)

    settings = loaders["core"].settings
    assert settings is not None
    assert settings.adopt_library_users == adopts
