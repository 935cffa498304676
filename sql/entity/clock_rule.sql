-- What each kind of collective proves about the clocks of its members.
--
-- A member does not complete before the arrivals that it waits for. Which arrivals
-- those are differs by operation; an operation that is not here proves nothing: those
-- of variable counts (an unknown part may be zero), sends and receives of MPI (tags are
-- not recorded; clock_message has NCCL's), and the end of a communicator.
--
-- grain:   operation, part
-- reads:
-- caveat:  making a communicator counts only where the library is known to wait for
--          every member (NCCL's init; split and dup of either library)
-- source:  MPI 4.1, chapter 6; NCCL user guide, communicators
--
-- columns:
--   operation     VARCHAR  operation of the call
--   part          VARCHAR  all; of a scan from_first and to_last
--   arrival_of    VARCHAR  whose arrival is waited for: every, root, first, last
--   completion_of VARCHAR  whose completion waits: every, root, first, last
--   is_release    BOOLEAN  members of a blocking call leave it together

with rule (operation, part, arrival_of, completion_of, is_release) as (
    values
    ('all_reduce', 'all', 'every', 'every', true),
    ('all_gather', 'all', 'every', 'every', true),
    ('reduce_scatter', 'all', 'every', 'every', true),
    ('all_to_all', 'all', 'every', 'every', true),
    ('barrier', 'all', 'every', 'every', true),
    ('comm_init', 'all', 'every', 'every', false),
    ('comm_split', 'all', 'every', 'every', false),
    ('comm_dup', 'all', 'every', 'every', false),
    ('broadcast', 'all', 'root', 'every', false),
    ('scatter', 'all', 'root', 'every', false),
    ('reduce', 'all', 'every', 'root', false),
    ('gather', 'all', 'every', 'root', false),
    ('scan', 'from_first', 'first', 'every', false),
    ('scan', 'to_last', 'every', 'last', false),
    ('exscan', 'from_first', 'first', 'every', false),
    ('exscan', 'to_last', 'every', 'last', false)
)

select
    operation,
    part,
    arrival_of,
    completion_of,
    is_release
from rule
