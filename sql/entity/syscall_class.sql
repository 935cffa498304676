-- What a thread waits for when it sleeps in a system call.
--
-- A write to a pipe or socket counts as file, a read from one as read: the system call
-- is what was recorded, not the descriptor behind it.
--
-- grain:   syscall
-- reads:
--
-- columns:
--   syscall VARCHAR  system call, by name
--   class   VARCHAR  class of step_budget: read, file, network, lock or timed_sleep

with listed (syscall, class) as (
    values
    ('read', 'read'),
    ('pread64', 'read'),
    ('readv', 'read'),
    ('preadv', 'read'),
    ('preadv2', 'read'),
    ('getdents', 'read'),
    ('getdents64', 'read'),
    ('write', 'file'),
    ('pwrite64', 'file'),
    ('writev', 'file'),
    ('pwritev', 'file'),
    ('pwritev2', 'file'),
    ('fsync', 'file'),
    ('fdatasync', 'file'),
    ('sync', 'file'),
    ('syncfs', 'file'),
    ('sync_file_range', 'file'),
    ('open', 'file'),
    ('openat', 'file'),
    ('openat2', 'file'),
    ('close', 'file'),
    ('stat', 'file'),
    ('fstat', 'file'),
    ('lstat', 'file'),
    ('newfstatat', 'file'),
    ('statx', 'file'),
    ('unlink', 'file'),
    ('unlinkat', 'file'),
    ('rename', 'file'),
    ('renameat', 'file'),
    ('renameat2', 'file'),
    ('mkdir', 'file'),
    ('mkdirat', 'file'),
    ('truncate', 'file'),
    ('ftruncate', 'file'),
    ('fallocate', 'file'),
    ('sendfile', 'file'),
    ('copy_file_range', 'file'),
    ('msync', 'file'),
    ('poll', 'network'),
    ('ppoll', 'network'),
    ('select', 'network'),
    ('pselect6', 'network'),
    ('epoll_wait', 'network'),
    ('epoll_pwait', 'network'),
    ('epoll_pwait2', 'network'),
    ('recvfrom', 'network'),
    ('recvmsg', 'network'),
    ('recvmmsg', 'network'),
    ('sendto', 'network'),
    ('sendmsg', 'network'),
    ('sendmmsg', 'network'),
    ('accept', 'network'),
    ('accept4', 'network'),
    ('connect', 'network'),
    ('io_uring_enter', 'network'),
    ('futex', 'lock'),
    ('futex_waitv', 'lock'),
    ('futex_wait', 'lock'),
    ('semop', 'lock'),
    ('semtimedop', 'lock'),
    ('nanosleep', 'timed_sleep'),
    ('clock_nanosleep', 'timed_sleep')
)

select
    syscall,
    class
from listed
