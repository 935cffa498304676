"""``doctor``: what can be recorded on this host, said before anything is recorded.

One module a family of checks.  Whatever can be tried is tried, on code and maps of our
own: a version number says little about a distribution's kernel, and a policy file less
about what it does.  Functions that end in ``_row`` judge what was read or tried and
touch nothing, so that every sentence can be tested; :mod:`capture.doctor.examination`
does the reading and the trying.  No sentence asks a site to weaken its policy.

Nothing here is needed to record: ``record`` finds out by itself what it may do.
"""
