"""Which loader works here: each is tried, none is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from capture.loaders import RING_BYTES, Loader, LoaderError, LoaderSettings
from capture.loaders.absent import AbsentLoader

if TYPE_CHECKING:
    from capture.options import RecordOptions


_INSTEAD = "'doctor' says what is missing; --streams none records facts without eBPF"


def open_loader(options: RecordOptions, say: Callable[[str], None]) -> Loader:
    """Return the first loader that can load its programs; ``say`` hears of refusals.

    Raises
    ------
    LoaderError
        If none can, with the reason of each.
    """
    if not options.streams:
        return AbsentLoader()
    settings = LoaderSettings(
        streams=options.streams,
        off_cpu_min_ns=options.off_cpu_min_ns,
        adopt_library_users=not (options.pids or options.cgroups),
        nested_driver_calls=options.probe_set == "full",
        can_thin=options.budget_ppm is not None,
        libbpf=options.libbpf,
        ring_bytes=_ring_bytes(options.ring_bytes),
    )
    names = ("core", "bcc") if options.loader == "auto" else (options.loader,)
    refusals: list[LoaderError] = []
    for name in names:
        loader = _loaded(name, settings, refusals)
        if loader is not None:
            return loader
        say(f"loader {name} refused: {refusals[-1].message}")
    reasons = "; ".join(
        f"{name}: {error.message}" for name, error in zip(names, refusals)
    )
    hint = next((f"{error.hint}; " for error in refusals if error.hint), "")
    raise LoaderError(f"no loader works here: {reasons}", hint + _INSTEAD)


def _ring_bytes(asked: int | None) -> dict[str, int]:
    """Return the size of each ring; the one for facts is small and stays so."""
    if asked is None:
        return RING_BYTES
    return {name: asked if name != "facts" else RING_BYTES[name] for name in RING_BYTES}


def _loaded(
    name: str, settings: LoaderSettings, refusals: list[LoaderError]
) -> Loader | None:
    """Return a loader with its programs in the kernel, or add to the refusals."""
    loader = None
    try:
        loader = make_loader(name)
        loader.load(settings)
    except LoaderError as error:
        refusals.append(error)
        if loader is not None:
            loader.close()
        return None
    return loader


def make_loader(name: str) -> Loader:
    """Return a loader; its module is imported only when it is tried."""
    if name == "core":
        from capture.loaders.core import CoreLoader  # noqa: PLC0415 see above

        return CoreLoader()
    from capture.loaders.bcc import BccLoader  # noqa: PLC0415 see above

    return BccLoader()
