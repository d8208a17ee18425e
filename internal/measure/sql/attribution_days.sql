WITH
taken_back AS (
  SELECT order_event_id, sum({{plausible "amount"}}) AS amount
  FROM refunds
  WHERE amount IS NOT NULL
  GROUP BY order_event_id
),
entries AS (
  SELECT a.data_set_id, a.cp_id, {{day "a.event_time"}} AS day, a.event_type, a.basis,
    CASE WHEN p.part = 'refund' OR a.value IS NOT NULL THEN a.currency_code END AS currency_code,
    CASE WHEN p.part = 'order' THEN 1 ELSE 0 END AS conversions,
    CASE WHEN p.part = 'order' THEN {{plausible "a.value"}} ELSE 0 END AS gross,
    CASE WHEN p.part = 'refund' THEN t.amount ELSE 0 END AS refunded
  FROM attributions a
  LEFT JOIN taken_back t ON t.order_event_id = a.event_id
  CROSS JOIN (VALUES ('order'), ('refund')) AS p (part)
  WHERE p.part = 'order' OR t.amount IS NOT NULL
)
SELECT data_set_id, cp_id, day, event_type, basis, currency_code,
  CAST(sum(conversions) AS BIGINT) AS conversions,
  sum(gross) AS gross, sum(refunded) AS refunded, sum(gross) - sum(refunded) AS net
FROM entries
GROUP BY data_set_id, cp_id, day, event_type, basis, currency_code
