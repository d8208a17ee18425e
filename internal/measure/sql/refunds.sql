WITH
ranked AS (
  SELECT event_id, data_set_id,
    row_number() OVER (
      PARTITION BY data_set_id, CASE WHEN sender_event_id IS NOT NULL THEN 'event' ELSE 'row' END,
        COALESCE(sender_event_id, {{id "event_id"}})
      ORDER BY received_at, {{id "event_id"}}
    ) AS place
  FROM {{.Events}}
  WHERE event_type = 'refund'
),
orders AS (
  SELECT event_id, data_set_id, order_id, currency_code, event_time, cp_id
  FROM conversions
  WHERE event_type = 'purchase' AND order_id IS NOT NULL
)
SELECT
  {{columns "e" "data_set_id" "r.data_set_id"}},
  abs(e.value) AS amount, o.event_id AS order_event_id, o.event_time AS order_time, o.cp_id AS order_cp_id
FROM ranked r
JOIN {{.Events}} e ON e.event_id = r.event_id AND e.data_set_id = r.data_set_id
LEFT JOIN orders o ON o.data_set_id = e.data_set_id AND o.order_id = e.order_id AND o.currency_code = e.currency_code
WHERE r.place = 1
