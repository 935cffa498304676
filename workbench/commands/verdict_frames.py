"""What a verdict is made of: frames out of a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.commands.output import plain

if TYPE_CHECKING:
    import polars as pl

STRAGGLER = "finding_straggler"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """All that the text is made of, each a frame out of the case."""

    case_path: str
    findings: pl.DataFrame
    ranks: pl.DataFrame
    hosts: pl.DataFrame
    victims: pl.DataFrame
    causes: pl.DataFrame
    shares: pl.DataFrame
    clocks: pl.DataFrame
    coverage: pl.DataFrame
    presence: pl.DataFrame
    problems: pl.DataFrame
    jobs: pl.DataFrame
    variances: pl.DataFrame

    def host_name(self, host_id: int | None) -> str:
        """Return the name of a host, harmless to a terminal."""
        names = dict(self.hosts.select("host_id", "host_name").iter_rows())
        return plain(str(names.get(host_id) or host_id))

    def job_of(self, row: dict[str, Any]) -> str | None:
        """Return the job of the rank that a finding is about."""
        jobs = self.ranks.filter(host_id=row["host_id"], rank=row["rank"])["job_id"]
        return jobs[0] if len(jobs) else None

    def of(self, finding: str, verdict: str) -> list[dict[str, Any]]:
        """Return the rows of a finding with that verdict."""
        chosen = self.findings.filter(finding=finding, verdict=verdict)
        return list(chosen.iter_rows(named=True))

    @property
    def found(self) -> list[dict[str, Any]]:
        """Return what was found, stragglers first."""
        rows = self.findings.filter(verdict="found").iter_rows(named=True)
        return sorted(rows, key=lambda row: row["finding"] != STRAGGLER)
