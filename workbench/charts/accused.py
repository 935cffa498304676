"""Who is accused, and in which steps: what charts mark and put first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.store.case import Case

LATE_STEP = """
    select distinct s.job_id, s.rank, unnest(s.affected_steps) as step, s.period_steps
    from straggler_score as s
    semi join finding as f
        on
            s.rank = f.rank
            and f.finding = 'finding_straggler'
            and f.verdict = 'found'
    where s.is_accused and s.window_kind = (
        select min(window_kind) from straggler_score as w
        where w.is_accused and w.job_id = s.job_id and w.rank = s.rank
    )
"""
"""Late steps of each accused rank: of the whole run, or else of its windows."""


def job_of_interest(case: Case) -> str | None:
    """Return the job of the rank that is accused most, else the one with most ranks."""
    rows = case.frame("""
        select r.job_id
        from rank as r
        left join finding as f
            on r.rank = f.rank and r.host_id = f.host_id
            and f.finding = 'finding_straggler' and f.verdict = 'found'
        group by r.job_id
        order by max(f.magnitude_ns) desc nulls last, count(*) desc, r.job_id
        limit 1
    """)
    return None if rows.is_empty() else str(rows.item())


def rank_of_interest(case: Case, job_id: str) -> int | None:
    """Return the accused rank of a job, else the one with the largest excess."""
    rows = case.frame(
        """
        select s.rank
        from rank_summary as s
        left join finding as f
            on s.rank = f.rank and s.host_id = f.host_id
            and f.finding = 'finding_straggler' and f.verdict = 'found'
        where s.job_id = $job_id
        order by f.magnitude_ns desc nulls last, s.excess_ns desc, s.rank
        limit 1
        """,
        {"job_id": job_id},
    )
    return None if rows.is_empty() else int(rows.item())
