-- The numbers by which findings decide, in one place.
--
-- grain:   name
-- reads:
--
-- columns:
--   name    VARCHAR  name
--   value   DOUBLE   number
--   unit    VARCHAR  its unit
--   meaning VARCHAR  what it decides

with setting (name, value, unit, meaning) as (
    values
    (
        'straggler_alone', 1.05::double, 'ratio',
        'job with only this rank as it was, against the job with none late'
    ),
    ('straggler_share', 0.5, 'ratio', 'part of the whole excess this rank explains'),
    (
        'affected_step', 0.05, 'ratio',
        'excess of a step over its role, of the ideal step, that counts as late'
    ),
    (
        'affected_part', 0.5, 'ratio',
        'excess of a step, of the rank''s typical excess, that counts as late'
    ),
    ('cause_share', 0.5, 'ratio', 'part of a rank''s excess that a cause must explain'),
    ('period_agreement', 0.9, 'ratio', 'distances of late steps that fit a period'),
    ('clock_agreement', 0.5, 'ratio', 'late steps in which the clocks prove the order'),
    ('few_steps', 3, 'count', 'fewer late steps accuse in no window, weakly in a run'),
    (
        'gap_step', 0.05, 'ratio',
        'time ranks wait for their own GPUs, of a step, that could hide a slow GPU'
    ),
    (
        'run_queue_step', 0.05, 'ratio',
        'time waiting for a CPU beyond the role''s, of a step, that is a finding'
    ),
    ('onset_share', 0.5, 'ratio', 'steps after the first late one that are late too'),
    (
        'rotation_step', 0.5, 'ratio',
        'steps in which one rank alone is late, of all, that are a rotation'
    ),
    ('hang_open', 5, 's', 'open call, to the end of the recording, that may be stuck'),
    (
        'hang_open_ratio', 10, 'ratio',
        'the same, of the longest call that the rank ever completed'
    ),
    (
        'role_imbalance', 1.2, 'ratio',
        'own work of a role, over that of the other roles, that is reported'
    ),
    (
        'blocked_step', 0.05, 'ratio',
        'time blocked beyond the role''s, of a step, that is a finding'
    )
)

select
    name,
    value,
    unit,
    meaning
from setting
