# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which rank do the others wait for?
#
# Not the one that arrives last most often: somebody always does. The one whose own
# work is longer than that of its peers, so much that the job would be faster without
# it.

# %%
from workbench import open_case
from workbench.charts.registry import CHARTS

# %load_ext workbench.ui.notebook
case = open_case("case.duckdb")

# %% [markdown]
# ## Own time of every step
#
# Time of a step outside waiting for others, beyond the median of the rank's role:
# free of clocks. Look for a row that is dark where the others are pale, and whether
# it is dark at each step, at regular ones or once.

# %%
CHARTS["lateness"].draw(case)

# %% [markdown]
# Seen in the sample `late-rank`: rank 5 at each 14th step, and nobody else. In
# `healthy` there are dark cells too, in all rows, and the scale says that they are a
# few milliseconds.
#
# ## What if?
#
# The job, simulated with one rank at a time as it was and everything else as the
# median of its role. `alone_ratio` is that against a job without any lateness; a rank
# is accused from 1.05 on, if its share of the whole excess is at least half, and if
# it waits less than its role.

# %%
case.frame("""
    select rank, alone_ratio, share_ratio, slowdown_ratio,
        1e-9 * wait_ns as wait_s, 1e-9 * role_median_wait_ns as role_wait_s, is_accused
    from straggler_score where window_kind = 'run'
    order by alone_ratio desc, rank limit 10
""")

# %% [markdown]
# Seen in the sample: rank 5 alone doubles the time of the job; the next ranks change
# nothing.
#
# ## The worst rendezvous
#
# The clocks as a second witness. Look whether the accused rank is `surely last`, or
# only last within the band.

# %%
CHARTS["arrival_fan"].draw(case)

# %% [markdown]
# Seen in the sample: rank 5, by far more than the band.
#
# ## For and against
#
# What supports the verdict, what contradicts it, and what could not be checked. Look
# at the second before you believe the first.

# %%
case.frame("""
    select rank, unnest(evidence_for) as speaks_for from finding
    where finding = 'finding_straggler' and verdict = 'found'
""")

# %%
case.frame("""
    select verdict, count(*) as ranks,
        string_agg(distinct array_to_string(evidence_against, '; '), '; ') as against,
        string_agg(distinct array_to_string(not_checked, '; '), '; ') as not_checked
    from finding where finding = 'finding_straggler' group by verdict order by verdict
""")

# %% [markdown]
# Seen in the sample: nothing against, and seven ranks that are clear. `not_observed`
# or `not_decidable` would be no all-clear.
#
# ## The answer
#
# The late ranks; no row where nobody holds the job up. Next: `why_is_it_late`.

# %%
answer = case.frame("""
    select f.rank, h.host_name, f.magnitude_ns, f.affected_step_count, f.step_count,
        f.period_steps, f.slowdown_ratio, f.confidence
    from finding as f inner join host as h on f.host_id = h.host_id
    where f.finding = 'finding_straggler' and f.verdict = 'found'
    order by f.magnitude_ns desc, f.rank
""")
answer
