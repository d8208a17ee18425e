-- make generate makes this file from internal/measure. Do not change it here.
WITH
taken_back AS (
  SELECT order_event_id, sum(CASE WHEN abs(amount) <= 1e15 THEN amount ELSE 0 END) AS amount
  FROM {{ ref('sluice', 'refunds') }}
  WHERE amount IS NOT NULL
  GROUP BY order_event_id
),
entries AS (
  SELECT a.data_set_id, a.cp_id, CASE WHEN {{ sluice.time_zone() }} = 'UTC' THEN CAST(make_timestamp(epoch_us(a.event_time)) AS DATE) ELSE CAST(a.event_time AT TIME ZONE {{ sluice.time_zone() }} AS DATE) END AS day, a.event_type, a.basis,
    CASE WHEN p.part = 'refund' OR a.value IS NOT NULL THEN a.currency_code END AS currency_code,
    CASE WHEN p.part = 'order' THEN 1 ELSE 0 END AS conversions,
    CASE WHEN p.part = 'order' THEN CASE WHEN abs(a.value) <= 1e15 THEN a.value ELSE 0 END ELSE 0 END AS gross,
    CASE WHEN p.part = 'refund' THEN t.amount ELSE 0 END AS refunded
  FROM {{ ref('sluice', 'attributions') }} a
  LEFT JOIN taken_back t ON t.order_event_id = a.event_id
  CROSS JOIN (VALUES ('order'), ('refund')) AS p (part)
  WHERE p.part = 'order' OR t.amount IS NOT NULL
)
SELECT data_set_id, cp_id, day, event_type, basis, currency_code,
  CAST(sum(conversions) AS BIGINT) AS conversions,
  sum(gross) AS gross, sum(refunded) AS refunded, sum(gross) - sum(refunded) AS net
FROM entries
GROUP BY data_set_id, cp_id, day, event_type, basis, currency_code
