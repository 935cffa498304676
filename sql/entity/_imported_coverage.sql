-- What an imported operation trace can say about each stream, as coverage does.
--
-- The trace stands for the stream `collective`; it holds no other.
--
-- grain:   host_id, stream
-- reads:   stg_imported_file
--
-- columns:
--   host_id    INTEGER         the file, in place of a host
--   stream     VARCHAR         stream
--   from_ns    BIGINT   ns     begin of the trace
--   to_ns      BIGINT   ns     its end; NULL: not looked up
--   state      VARCHAR         observed or absent
--   reason     VARCHAR         why it is not observed
--   lost_ratio DOUBLE   ratio  0

with known (stream, reason) as (
    values
    ('collective', null),
    ('gpu_call', 'gpu_call: not in an imported operation trace'),
    ('off_cpu', 'off_cpu: not in an imported operation trace'),
    ('gpu_kernel', 'gpu_kernel: not in an imported operation trace')
)

select
    f.import_id as host_id,
    k.stream,
    0::bigint as from_ns,
    null::bigint as to_ns,
    if(k.reason is null, 'observed', 'absent') as state,
    k.reason,
    0::double as lost_ratio
from stg_imported_file as f
cross join known as k
where f.kind = 'straggler-ops'
