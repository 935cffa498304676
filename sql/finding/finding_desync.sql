-- Communicator whose members do not make the same calls in the same order.
--
-- From the first call on which they differ nothing on it can complete as meant.
--
-- requires: collective
-- uses:     gpu_call
-- subject:  communicator
-- reads:    collective_order
-- columns:  finding

with judged as (
    select
        *,
        case
            when first_seq is not null then null
            when unnumbered_count > 0
                then
                    'the calls of ' || unnumbered_count || ' of its members are not'
                    || ' numbered since it was made: the order cannot be compared'
            when member_count < coalesce(size, member_count)
                then
                    'only ' || member_count || ' of its ' || size
                    || ' members are in this case: the others may differ'
        end as reason,
        'communicator_id = ''' || replace(communicator_id, '''', '''''') || ''''
            as communicator_key
    from collective_order
    where coalesce(size, member_count + unnumbered_count) > 1
)

select
    if(first_seq is null, 'not_decidable', 'found') as verdict,
    'communicator' as subject_kind,
    communicator_id as subject_id,
    null::integer as host_id,
    null::integer as rank,
    null::bigint as window_from_ns,
    null::bigint as window_to_ns,
    null::varchar as cause,
    null::bigint as magnitude_ns,
    null::bigint as clock_error_ns,
    null::double as slowdown_ratio,
    null::double as share_ratio,
    null::bigint as step_count,
    null::bigint as affected_step_count,
    null::bigint as period_steps,
    case
        when first_seq is null then null
        when minority_ranks is null then 'medium'
        else 'high'
    end as confidence,
    'collective_span' as evidence_view,
    if(
        first_seq is null,
        [communicator_key],
        [communicator_key, 'collective_seq = ' || first_seq]
    ) as evidence_keys,
    if(
        first_seq is null,
        [],
        [
            coalesce(
                'all agree up to call ' || last_agreed_seq, 'its first calls differ'
            )
            || '; call ' || first_seq || ' is '
            || array_to_string(
                list_transform(
                    list_zip(call_words, member_words),
                    lambda x: x[1] || ' on ranks ' || x[2]
                ),
                '; '
            ),
            coalesce(
                'ranks ' || array_to_string(minority_ranks, ', ')
                || ' differ from the majority',
                'no majority: who is wrong cannot be told from the calls alone'
            )
        ]
    ) as evidence_for,
    if(reason is null, [], [reason]) as evidence_against,
    []::varchar[] as not_checked,
    if(
        first_seq is null,
        'record every member, from its start',
        'look at what the ranks that differ did before this call: a branch taken alone'
    ) as next_step
from judged
where first_seq is not null or reason is not null
