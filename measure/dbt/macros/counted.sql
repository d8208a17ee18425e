{# Events in the table, and events that hours counted as accepted, by dataset, hour and type: of hours that are complete. #}
{% macro counted() %}
SELECT data_set_id, to_timestamp(hour * 3600) AS hour, event_type,
  CAST(sum(stored) AS BIGINT) AS stored, CAST(sum(accepted) AS BIGINT) AS accepted
FROM (
  SELECT data_set_id, CAST(epoch(received_at) AS BIGINT) // 3600 AS hour, event_type, 1 AS stored, 0 AS accepted
  FROM {{ source('sluice', 'events') }}
  UNION ALL
  SELECT data_set_id, CAST(epoch(hour) AS BIGINT) // 3600, name, 0, count
  FROM {{ source('sluice', 'hours') }}
  WHERE kind = 'events' AND field = 'accepted'
)
WHERE (hour + 1) * 3600 <= epoch(now()) - 60 * {{ var('sluice_settled_minutes') | int }}
  AND hour >= (SELECT min(CAST(epoch(hour) AS BIGINT) // 3600) FROM {{ source('sluice', 'hours') }})
GROUP BY ALL
{% endmacro %}
