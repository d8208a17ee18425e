-- Each event is in the table once: never more events than hours counted when they were accepted.
SELECT * FROM ({{ sluice.counted() }}) WHERE stored > accepted
