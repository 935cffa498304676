-- What went wrong while loading, one a row.
--
-- grain:   problem_number
-- reads:   raw.load_problem
--
-- columns:
--   problem_number BIGINT           number in order of path and kind
--   bundle_id      INTEGER          bundle, where one could be read
--   host_id        INTEGER          host
--   path           VARCHAR          file
--   kind           VARCHAR          a word for it
--   member         VARCHAR          part of the file
--   message        VARCHAR          a sentence for it

select
    row_number() over (order by path, kind, member, message) as problem_number,
    bundle_id,
    host_id,
    path,
    kind,
    member,
    message
from raw.load_problem
