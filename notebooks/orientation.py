# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What is in this case?
#
# Before anybody is accused: which hosts and ranks were recorded, for how long, and
# what could not be seen. The cell below is the only input. `coldtrace notebook CASE`
# fills it in.

# %%
from workbench import open_case
from workbench.charts.registry import CHARTS

# %load_ext workbench.ui.notebook
case = open_case("case.duckdb")

# %% [markdown]
# ## Hosts and ranks
#
# Look for a host that is missing, and for ranks that the job has and this case has
# not: a rank that was not recorded can be the one that all others wait for.

# %%
case.frame("""
    select job_id, world_size, rank_count, missing_ranks, note from job_presence
""")

# %%
case.frame("""
    select h.host_name, h.cpu_count, count(r.rank) as ranks,
        1e-9 * (h.stop_ns - h.start_ns) as recorded_s
    from host as h
    left join rank as r on h.host_id = r.host_id
    group by all order by h.host_name
""")

# %% [markdown]
# Seen in the sample `late-rank`: two hosts with four ranks each, all eight of the
# job, some 13 seconds.
#
# ## What was not seen
#
# Each stream of events is `observed`, `partial`, `silent` or `absent` on each host.
# Look for a host that differs from the others: what is not observed there is no
# all-clear.

# %%
case.frame("""
    select h.host_name, c.stream, c.state, c.lost_ratio, c.reason
    from coverage as c inner join host as h on c.host_id = h.host_id
    order by c.stream, h.host_name
""")

# %% [markdown]
# Seen in the sample: calls and times off the CPU are observed on both hosts; no
# process used a GPU library, so nothing at all is said about GPUs.
#
# ## What went wrong while loading

# %%
case.frame("select host_name, kind, message from load_problem order by problem_number")

# %% [markdown]
# Seen in the sample: nothing.
#
# ## The whole run on one page
#
# One row a rank (a host, in a large job), one column a moment. Look for a row that
# differs from the others, and for moments at which all rows change together.

# %%
CHARTS["heat_map"].draw(case, measure="own")

# %% [markdown]
# Seen in the sample: rank 5 stands out again and again; the other rows are alike.
#
# The same for the time that each rank waited for others. Look for the row that is
# *empty* where the others are full: that rank does not wait, it is waited for.

# %%
CHARTS["heat_map"].draw(case, measure="waiting")

# %% [markdown]
# Seen in the sample: every rank waits at the same moments, except rank 5.
#
# ## The answer
#
# One row a host: its ranks and steps, and the streams on which no claim can rest.
# Next: `clocks`, which says how far times of two hosts may be compared.

# %%
answer = case.frame("""
    select
        h.host_name,
        count(distinct r.rank) as rank_count,
        max(s.step) as step_count,
        (
            select string_agg(c.stream, ', ' order by c.stream) from coverage as c
            where c.host_id = h.host_id and c.state <> 'observed'
        ) as not_observed
    from host as h
    left join rank as r on h.host_id = r.host_id
    left join model.step as s on r.job_id = s.job_id and r.rank = s.rank
    group by h.host_id, h.host_name order by h.host_name
""")
answer
