# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A question of your own, kept as a view
#
# Every number in these notebooks is a view: a select with a name. Here you write one,
# look at what it stands on, and save it, so that it is there in every case you open
# later.

# %%
from workbench import open_case
from workbench.charts.heat_map import Measure
from workbench.charts.registry import CHARTS

# %load_ext workbench.ui.notebook
case = open_case("case.duckdb")

# %% [markdown]
# ## Ask
#
# A cell that begins with `%%case` is SQL on the open case. Look at what `step_excess`
# holds: one row a rank and step, and how much longer its own work took than the
# median of its role.

# %%
# %%case
# describe step_excess

# %% [markdown]
# A `$name` in the query has the value of the variable of that name. Change the number
# and run both cells again.

# %%
shortest_ms = 5.0

# %%
# %%case
# select rank, step, 1e-6 * excess_ns as excess_ms from step_excess
# where excess_ns > 1e6 * $shortest_ms
# order by excess_ns desc, rank, step limit 10

# %% [markdown]
# Seen in the sample `late-rank`: the ten longest are all of rank 5.
#
# ## Turn it into the question
#
# Is it the host, or the rank? Add the excess up by host, and see how much of it one
# rank has.

# %%
BY_HOST = """
    select
        s.host_id,
        count(*) as rank_count,
        sum(s.excess_ns)::bigint as excess_ns,
        max(s.excess_ns) as largest_excess_ns
    from rank_summary as s
    group by s.host_id
"""
case.frame(f"""
    select h.host_name, v.* exclude (host_id)
    from ({BY_HOST}) as v inner join host as h on v.host_id = h.host_id
    order by h.host_name
""")

# %% [markdown]
# Seen in the sample: all of the excess of `hostb` is that of one rank. A sick host
# would have it spread.
#
# ## Save it
#
# The file goes into `~/.config/coldtrace/views`, or where `COLDTRACE_VIEWS` says; the
# case is not touched. Its header is made from the views it reads. Nothing is written
# if the view breaks a rule of the library.

# %%
case.save_view(
    "host_excess",
    BY_HOST,
    "Excess of the ranks of each host over their roles, and the largest of one rank.",
    replace=True,
).name

# %% [markdown]
# ## Draw it
#
# A measure of your own is a select that gives a host, a rank, a time and a value.

# %%
LATE = Measure(
    label="own time beyond peers",
    unit="ms",
    aggregate="max",
    sql="""
        select s.host_id, e.rank, s.start_ns, s.end_ns, 1e-6 * e.excess_ns as value
        from step_excess as e
        inner join model.step as s
            on e.job_id = s.job_id and e.rank = s.rank and e.step = s.step
    """,
)
CHARTS["heat_map"].draw(case, measure=LATE)

# %% [markdown]
# ## The answer
#
# The saved view, asked by its name.

# %%
answer = case.frame("""
    select h.host_name, v.rank_count, v.excess_ns, v.largest_excess_ns
    from host_excess as v inner join host as h on v.host_id = h.host_id
    order by h.host_name
""")
answer
