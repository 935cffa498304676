-- Files of other tools that were imported, with their provenance.
--
-- grain:   import_id
-- reads:   raw.imported_file
--
-- columns:
--   import_id      INTEGER         key: 31 bits of a hash of kind and content
--   kind           VARCHAR         kind of file, as `coldtrace import` names it
--   name           VARCHAR         name within the case: the file's, told apart
--   path           VARCHAR         file it was imported from
--   content_sha256 VARCHAR         SHA-256 of the file
--   row_count      BIGINT   count  rows that it brought
--   imported_utc   VARCHAR         when it was imported

select
    import_id,
    kind,
    name,
    path,
    content_sha256,
    row_count,
    imported_utc
from raw.imported_file
