-- The call that ends a step, where a user named one; no row: steps are sought.
--
-- grain:   operation
-- reads:   raw.step_marker
--
-- columns:
--   operation       VARCHAR  operation of the call
--   communicator_id VARCHAR  communicator; NULL: the widest on which it is called

select
    operation,
    communicator_id
from raw.step_marker
