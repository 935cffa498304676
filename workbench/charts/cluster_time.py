"""Where a moment of a host lies on the time axis of a chart.

The axis shows seconds of cluster time since the case's first event.  Where hosts could
not be joined there are several groups of clocks, whose times are never compared: each
group then counts from the first recording of its own.
"""

from __future__ import annotations

PLACED_CLOCK = """
    with first as (
        select
            c.clock_group_id,
            min(h.start_ns + c.offset_ns
                + ((h.start_ns - c.from_ns) * c.rate)::bigint) as first_ns
        from host as h
        asof inner join model.clock as c
            on h.host_id = c.host_id and h.start_ns >= c.from_ns
        group by c.clock_group_id
    )
    select
        c.host_id,
        c.clock_group_id,
        c.from_ns,
        c.to_ns,
        c.offset_ns,
        c.rate,
        c.error_ns,
        if((select count(*) from first) = 1, $origin_ns, first.first_ns) as zero_ns
    from model.clock as c
    inner join first on c.clock_group_id = first.clock_group_id
"""
"""Lines of ``model.clock`` with the zero of the axis; needs ``$origin_ns``."""


def axis_s(moment: str, clock: str = "c") -> str:
    """Return the SQL of a host moment (ns) in seconds on the axis, as DOUBLE."""
    return (
        f"1e-9 * ({moment} + {clock}.offset_ns"
        f" + (({moment} - {clock}.from_ns) * {clock}.rate)::bigint - {clock}.zero_ns)"
    )
