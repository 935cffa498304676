"""What a row of a heat map is: a rank, a host or a group of neighbouring hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.store.case import Case

MOST_RANKS = 64
MOST_HOSTS = 80

RANK_ROW = """
    select r.rank, r.host_id, r.rank::varchar as label, r.rank::bigint as place
    from rank as r
    where r.job_id = $job_id
"""

HOST_ROW = f"""
    with numbered as (
        select
            host_id,
            if(count(*) over (partition by host_name) = 1, host_name,
                host_name || ' ' || host_id) as name,
            row_number() over (order by host_name, host_id) as number,
            count(*) over () as host_count
        from host
    ),
    placed as (
        select
            *,
            1 + (number - 1) * least({MOST_HOSTS}, host_count) // host_count as place
        from numbered
    )
    select
        null::integer as rank,
        host_id,
        case
            when count(*) over part = 1 then name
            else min(name) over part || ' to ' || max(name) over part
        end as label,
        place
    from placed
    window part as (partition by place)
"""


def heat_rows(case: Case, job_id: str | None) -> tuple[str, str]:
    """Return SQL of (rank, host_id, label, place), and the word for one of its rows.

    Ranks up to `MOST_RANKS`, hosts above that, groups of hosts above `MOST_HOSTS`; rank
    is NULL where a row is no rank.
    """
    ranks = 0
    if job_id is not None:
        ranks = case.frame(
            "select count(*) from rank where job_id = ?", [job_id]
        ).item()
    if 0 < ranks <= MOST_RANKS:
        return RANK_ROW, "rank"
    return HOST_ROW, "host"
