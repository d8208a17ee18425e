-- Fewer events than hours counted: an erasure or the retention of the table explains it. If neither does, run sluice lake check.
{{ config(severity='warn') }}
SELECT * FROM ({{ sluice.counted() }}) WHERE stored < accepted
