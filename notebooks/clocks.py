# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How far can times of two hosts be compared?
#
# Each host has its own clock. Collectives relate them: nobody leaves an all-reduce
# before the last has come. That gives bounds, not an estimate. Inside the band no
# order is claimed.

# %%
from workbench import open_case
from workbench.charts.registry import CHARTS

# %load_ext workbench.ui.notebook
case = open_case("case.duckdb")

# %% [markdown]
# ## Each host's clock in a line
#
# Look for hosts that are not `proved`: their times stand alone. Then at the band in
# the middle of the run: lateness below it cannot be told from a clock that is off.

# %%
case.frame("""
    select host_name, state, method, constraint_count as rendezvous,
        1e-6 * offset_middle_ns as offset_ms, 1e-3 * error_middle_ns as error_us,
        1e6 * rate as drift_ppm, last_ratio, reason
    from model.clock_summary order by host_name, segment
""")

# %% [markdown]
# Seen in the sample `late-rank`: `hostb` is a quarter of a second off and known to
# about 0.1 ms. Its offset was planted, so the true one is known, and it lies in the
# band.
#
# ## The band over time
#
# Look for places where the band opens: there a host was always the first to come, so
# nothing bounds it from one side. A rank that is late at *every* step leaves the band
# as wide as its lateness.

# %%
CHARTS["clock_band"].draw(case)

# %% [markdown]
# Seen in the sample: narrow and even, since each host is sometimes last. In the
# sample `always-late` it opens over the run to milliseconds.
#
# ## Contradictions
#
# Bounds that cannot all be true, whatever the clocks did: a wrongly matched
# communicator, or a clock that was set. Hosts in such a circle are not joined.

# %%
case.frame("""
    select host_names, 1e-6 * excess_ns as excess_ms, wander_ppb
    from model.clock_contradiction
""")

# %% [markdown]
# Seen in the sample: none.
#
# ## One rendezvous, with its band
#
# The grey bar behind each point is what the clocks leave open. Look whether the bars
# of the last two overlap: if they do, which of them came last is not known.

# %%
CHARTS["arrival_fan"].draw(case)

# %% [markdown]
# Seen in the sample: rank 5 comes hundreds of milliseconds after the others, and the
# band is too narrow to be seen at that scale.
#
# ## The answer
#
# Each host's offset to the reference, with its error, in the middle of the run.
# `at_ns` is that moment on the host's own clock. Next: `who_is_late`.

# %%
answer = case.frame("""
    select
        s.host_name,
        s.state,
        (s.from_ns + s.to_ns) // 2 as at_ns,
        (c.offset_ns + ((s.from_ns + s.to_ns) // 2 - c.from_ns) * c.rate)::bigint
            as offset_ns,
        c.error_ns
    from model.clock_summary as s
    inner join model.clock as c
        on s.host_id = c.host_id
        and (s.from_ns + s.to_ns) // 2 >= c.from_ns
        and (s.from_ns + s.to_ns) // 2 < c.to_ns
    order by s.host_name, s.segment
""")
answer
