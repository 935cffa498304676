# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Why is it late?
#
# A rank is late because its thread did something for longer than its peers did. The
# time budget names it: each nanosecond of a step is in exactly one class.

# %%
from workbench import open_case
from workbench.charts.lanes import late_window
from workbench.charts.registry import CHARTS

# %load_ext workbench.ui.notebook
case = open_case("case.duckdb")

# %% [markdown]
# ## The budget of its late steps
#
# Mean of the steps in which it is late; where nobody is accused, of all steps of the
# rank with the largest excess. Look for the class that is long on one bar and short
# on the others.

# %%
CHARTS["time_budget"].draw(case)

# %% [markdown]
# Seen in the sample `late-rank`: rank 5 spends its late steps in `read`, and the
# others wait meanwhile.
#
# ## The same in numbers
#
# Look at `share_ratio`: how much of the excess this class explains. What stays
# unexplained is a row, too.

# %%
case.frame("""
    select rank, class, affected_step_count as late_steps,
        1e-6 * duration_ns / affected_step_count as mean_ms,
        1e-6 * peer_duration_ns / affected_step_count as peers_ms, share_ratio
    from straggler_budget where window_kind = 'run' and excess_ns > 0
    order by rank, excess_ns desc limit 12
""")

# %% [markdown]
# Seen in the sample: `read` explains all but a thousandth.
#
# ## The first late step, up close
#
# Calls above, times off the CPU below, a lane a rank. Look for what the accused rank
# does while the grey bars of the others grow.

# %%
CHARTS["lanes"].draw(case, window_s=late_window(case))

# %% [markdown]
# Seen in the sample: seven ranks sit in the all-reduce, asleep, while rank 5 is in a
# single read. Without an accused rank the chart shows the whole run.
#
# ## Is it the same each time?
#
# Share of times off the CPU that last at least so long. Look for a line that leaves
# the others: a long flat piece is a second kind of event, a slope that everybody
# shares is noise.

# %%
CHARTS["latency"].draw(case)

# %%
CHARTS["latency_map"].draw(case, source="off_cpu")

# %% [markdown]
# Seen in the sample: only rank 5 has the second kind, all of the same length, evenly
# over the run.
#
# ## What to do
#
# The verdict's own words: the cause, and where to look next.

# %%
case.frame("""
    select f.rank, f.finding, f.cause, c.meaning, f.next_step
    from finding as f left join cause as c on f.cause = c.code
    where f.verdict = 'found' order by f.finding desc, f.magnitude_ns desc, f.rank
""")

# %% [markdown]
# ## The answer
#
# The cause of each late rank; no row where nobody is late. Next: `own_view`, a
# question of your own.

# %%
answer = case.frame("""
    select f.rank, h.host_name, f.cause, f.magnitude_ns, b.class, b.share_ratio
    from finding as f
    inner join host as h on f.host_id = h.host_id
    left join straggler_cause as b
        on f.rank = b.rank and b.window_kind = 'run' and f.cause = b.cause
    where f.finding = 'finding_straggler' and f.verdict = 'found'
    order by f.magnitude_ns desc, f.rank
""")
answer
