-- Overlap of two sets of spans on the same thread: one row a pair, its common part.
--
-- Arguments: the names of two relations with the columns (host_id, thread_id, start_ns,
-- duration_ns), and the length of a cell in ns. Each span is cut at multiples of it, so
-- that the join is a hash join on the cell and not a range join; the parts of a pair
-- are summed. Sound for any overlap; a span that has no length or is open overlaps
-- nothing. Best is a cell near the median length of the longer set: a span of 100 cells
-- costs 100 rows. Times must not be negative, for // truncates towards zero.

create or replace macro interval_overlap(a, b, cell_ns) as table
    with left_cell as (
        select
            host_id,
            thread_id,
            start_ns,
            start_ns + duration_ns as end_ns,
            cell_ns as width_ns,
            unnest(range(
                start_ns // cell_ns, (start_ns + duration_ns - 1) // cell_ns + 1
            )) as cell
        from query_table(a)
        where duration_ns > 0
    ),

    right_cell as (
        select
            host_id,
            thread_id,
            start_ns,
            start_ns + duration_ns as end_ns,
            unnest(range(
                start_ns // cell_ns, (start_ns + duration_ns - 1) // cell_ns + 1
            )) as cell
        from query_table(b)
        where duration_ns > 0
    )

    select
        x.host_id,
        x.thread_id,
        x.start_ns as a_start_ns,
        y.start_ns as b_start_ns,
        sum(
            least(x.end_ns, y.end_ns, (x.cell + 1) * x.width_ns)
            - greatest(x.start_ns, y.start_ns, x.cell * x.width_ns)
        )::bigint as overlap_ns
    from left_cell as x
    inner join right_cell as y
        on
            x.host_id = y.host_id
            and x.thread_id = y.thread_id
            and x.cell = y.cell
            and least(x.end_ns, y.end_ns, (x.cell + 1) * x.width_ns)
            > greatest(x.start_ns, y.start_ns, x.cell * x.width_ns)
    group by x.host_id, x.thread_id, x.start_ns, y.start_ns;
