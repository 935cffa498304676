"""Claim: a job is judged the same with pseudonyms as with names."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from capture.pseudonyms import Mapping, SiteKey, read_mapping
from capture.redaction import Redaction
from capture.seal import seal
from capture.site_names import SiteNames
from capture.spool import SpoolReader, SpoolWriter
from tests.bench import made_job
from tests.bench.made_job import LATE_RANK, MadeJob
from tests.bench.made_spool import write_spool
from workbench.store.case import Case
from workbench.store.load import load_bundles

if TYPE_CHECKING:
    from pathlib import Path

Answers = list[list[dict[str, Any]]]
Judged = tuple[Answers, Answers, dict[str, str]]

JOB = MadeJob(hosts=2, steps=28)
FINDINGS = "select f.*, h.host_name from finding f left join host h using (host_id)"
RANKS = """
    select r.rank, r.job_id, r.host_id, h.host_name, t.process_name, t.thread_name
    from rank r
    left join host h using (host_id)
    left join thread t on t.host_id = r.host_id and t.pid = r.pid
    order by r.rank
"""


def rewritten(spool: Path, folder: Path, redaction: Redaction) -> Path:
    """Return a spool as the recorder would have written it with a site key."""
    reader = SpoolReader(spool)
    writer = SpoolWriter(folder, reader.header, redaction)
    for frame in reader.frames():
        if frame.kind in ("facts", "clock", "end"):
            rows = [json.loads(line) for line in bytes(frame.payload).splitlines()]
            writer.append_rows(frame.kind, rows)
        else:
            writer.append(frame.kind, bytes(frame.payload), frame.record_count)
    writer.close()
    reader.close()
    return folder


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Return findings and ranks, with names and with pseudonyms, and the mapping."""
    folder = tmp_path_factory.mktemp("jobs")
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(made_job, "LATE_EVERY", 1)
        return judge(folder)


def judge(folder: Path) -> Judged:
    """Return what is said of a job whose late rank is late at every step."""
    mapping = folder / "mapping.jsonl"
    plain, redacted = folder / "plain", folder / "redacted"
    plain.mkdir()
    redacted.mkdir()
    for host in range(JOB.hosts):
        spool = folder / f"plain{host}.spool"
        write_spool(JOB, host, spool)
        # Each host opens the mapping and the key for itself.
        redaction = Redaction(
            SiteKey(bytes(range(32))), Mapping(mapping), SiteNames(frozenset())
        )
        hidden = rewritten(spool, folder / f"redacted{host}.spool", redaction)
        redaction.mapping.close()
        seal(spool, plain)
        seal(hidden, redacted, mapping=mapping)
    return asked(plain), asked(redacted), read_mapping(mapping)


def asked(folder: Path) -> Answers:
    """Return the findings and the ranks of a case of the bundles in a folder."""
    with Case.create(None) as case:
        load_bundles(case, [folder])
        return [case.frame(sql).to_dicts() for sql in (FINDINGS, RANKS)]


class Names:
    """Puts names where pseudonyms stand, and host names where hosts have numbers."""

    def __init__(self, ranks: list[dict[str, Any]], mapping: dict[str, str]) -> None:
        self._mapping = mapping
        # A host's number hangs on its boot id, which is a pseudonym too.
        self._hosts = {row["host_id"]: row["host_name"] for row in ranks}

    def put(self, value: Any) -> Any:  # noqa: ANN401 - any value of a row
        """Return a value, or what is in it, with names."""
        if isinstance(value, dict):
            return {name: self.put(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self.put(part) for part in value]
        if isinstance(value, int) and value in self._hosts:
            return self.put(self._hosts[value])
        if not isinstance(value, str):
            return value
        for number, name in self._hosts.items():
            value = re.sub(rf"\b{number}\b", name, value)
        for pseudonym, original in self._mapping.items():
            value = value.replace(pseudonym, original)
        # The origin of an MPI world is a mix of the job's name, so of its pseudonym.
        return re.sub(r"\bmpi:[0-9a-f]{32}\b", "mpi:world", value)


def test_findings_are_equal_but_for_the_pseudonyms(judged: Judged) -> None:
    plain, redacted, mapping = judged
    shown = [
        sorted((Names(ranks, mapping).put(row) for row in findings), key=str)
        for findings, ranks in (plain, redacted)
    ]

    accused = [row for row in shown[0] if row["verdict"] == "found"]
    assert {(row["rank"], row["host_name"]) for row in accused} == {
        (LATE_RANK, "host1")
    }
    assert shown[0] == shown[1]
    assert plain[0] != redacted[0]


def test_ranks_stand_on_the_same_hosts(judged: Judged) -> None:
    plain, redacted, mapping = judged

    found = [Names(ranks, mapping).put(ranks) for _, ranks in (plain, redacted)]

    assert len(found[0]) == JOB.ranks
    assert found[0] == found[1]


def test_the_pseudonyms_are_what_the_workbench_shows(judged: Judged) -> None:
    plain, redacted, _ = judged

    text = json.dumps(redacted, default=str)

    assert {row["host_name"] for row in plain[1]} == {"host0", "host1"}
    assert all(row["host_name"].startswith("host-") for row in redacted[1])
    assert all(row["thread_name"].startswith("name-") for row in redacted[1])
    assert '"host0"' not in text
    assert "made-job" not in text
