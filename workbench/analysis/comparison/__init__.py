"""Two sides compared, runs or groups of hosts: what changed, by how much, how surely.

`sides` reads the series of steps out of cases, `change` says for one series what the
difference is and how sure, `outcome` does so for all parts and names what differs.
The gate is about one number only, the job's time a step; parts explain it.
"""

from __future__ import annotations
