-- make generate makes this file from internal/measure. Do not change it here.
WITH
entries AS (
  SELECT data_set_id, cp_id, CASE WHEN {{ sluice.time_zone() }} = 'UTC' THEN CAST(make_timestamp(epoch_us(event_time)) AS DATE) ELSE CAST(event_time AT TIME ZONE {{ sluice.time_zone() }} AS DATE) END AS day, event_type,
    CASE WHEN value IS NOT NULL THEN currency_code END AS currency_code,
    1 AS conversions, CASE WHEN abs(value) <= 1e15 THEN value ELSE 0 END AS gross, CAST(0 AS DOUBLE) AS refunded,
    CASE WHEN late THEN 1 ELSE 0 END AS late,
    CASE WHEN privacy = 'measurement_only' THEN 1 ELSE 0 END AS restricted,
    CASE WHEN privacy = 'suppressed' THEN 1 ELSE 0 END AS suppressed
  FROM {{ ref('sluice', 'conversions') }}
  UNION ALL
  SELECT data_set_id,
    CASE WHEN order_event_id IS NOT NULL THEN order_cp_id ELSE cp_id END,
    CASE WHEN {{ sluice.time_zone() }} = 'UTC' THEN CAST(make_timestamp(epoch_us(COALESCE(order_time, event_time))) AS DATE) ELSE CAST(COALESCE(order_time, event_time) AT TIME ZONE {{ sluice.time_zone() }} AS DATE) END, 'purchase', currency_code,
    0, CAST(0 AS DOUBLE), CASE WHEN abs(amount) <= 1e15 THEN amount ELSE 0 END, 0, 0, 0
  FROM {{ ref('sluice', 'refunds') }}
  WHERE amount IS NOT NULL
)
SELECT data_set_id, cp_id, day, event_type, currency_code,
  CAST(sum(conversions) AS BIGINT) AS conversions,
  sum(gross) AS gross, sum(refunded) AS refunded, sum(gross) - sum(refunded) AS net,
  CAST(sum(late) AS BIGINT) AS late, CAST(sum(restricted) AS BIGINT) AS restricted, CAST(sum(suppressed) AS BIGINT) AS suppressed
FROM entries
GROUP BY data_set_id, cp_id, day, event_type, currency_code
