-- The causes that a finding may name, and what to do about each.
--
-- grain:   code
-- reads:
--
-- columns:
--   code      VARCHAR  value of the column cause of a finding
--   class     VARCHAR  class of step_budget it is read from; NULL: from none
--   meaning   VARCHAR  what the late rank was doing
--   next_step VARCHAR  what to look at next

with answer (code, class, meaning, next_step) as (
    values
    (
        'run_queue', 'run_queue', 'ready to run, waiting for a CPU',
        'see what else runs on its CPUs: pinning, cgroup limits, foreign processes'
    ),
    (
        'blocked_read', 'read', 'blocked in a read system call',
        'look at the input it reads: storage, loader workers, pipes'
    ),
    (
        'blocked_disk', 'disk', 'blocked on a disk, not interruptible',
        'check the disk and file system behind what it reads or writes'
    ),
    (
        'file_io', 'file', 'blocked writing, flushing or opening files',
        'look at checkpoints and logs that it writes, and where to'
    ),
    (
        'timed_sleep', 'timed_sleep', 'asleep on a timer',
        'look for a sleep, a poll interval or a back-off in its program'
    ),
    (
        'lock_wait', 'lock', 'waiting for another thread (futex)',
        'look at the other threads of its process: one of them holds it up'
    ),
    (
        'network_wait', 'network', 'waiting for the network or a descriptor',
        'find the connection it waits for, and who is at the other end'
    ),
    (
        'on_cpu', 'on_cpu', 'computing on the CPU',
        'profile its program in the late steps: uneven work, garbage collection'
    ),
    (
        'gpu_sync_wait', 'gpu_sync_wait', 'waiting in a GPU synchronisation',
        'compare clocks, temperature and errors of its GPU with its peers'''
    ),
    (
        'gpu_call', 'gpu_call', 'inside calls of the GPU runtime or driver',
        'see which GPU calls take long: allocations, copies, module loads'
    ),
    (
        'collective_call', 'collective_call', 'issuing collectives',
        'see which calls take long in collective_span'
    ),
    (
        'launch_gap', 'launch_gap', 'after a kernel launch recorded by entry alone',
        'record again with the full probe set to tell launches from computing'
    ),
    (
        'stopped', 'stopped', 'stopped by a signal or a debugger',
        'find who stopped the process'
    ),
    (
        'yielded', 'yielded', 'giving the CPU away by sched_yield',
        'look for a spinning wait in its program'
    ),
    (
        'off_cpu_short', 'off_cpu_short', 'many absences too short for own rows',
        'record again with a lower --off-cpu-min'
    ),
    (
        'unexplained',
        'unexplained',
        'in time that the recorded streams do not explain',
        'record more streams, or look at the steps yourself'
    ),
    (
        'not_determined', null, 'not determined by this capture',
        'record the streams that are missing on its host'
    )
)

select
    code,
    class,
    meaning,
    next_step
from answer
