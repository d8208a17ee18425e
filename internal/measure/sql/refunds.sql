WITH
ranked AS (
  SELECT {{columns "e"}},
    row_number() OVER (
      PARTITION BY data_set_id, CASE WHEN sender_event_id IS NOT NULL THEN 'event' ELSE 'row' END,
        COALESCE(sender_event_id, {{id "event_id"}})
      ORDER BY received_at, {{id "event_id"}}
    ) AS place
  FROM {{.Events}} e
  WHERE event_type = 'refund'
),
named AS (
  SELECT DISTINCT data_set_id, order_id FROM {{.Events}} WHERE event_type = 'refund' AND order_id IS NOT NULL
),
orders AS (
  SELECT e.event_id, e.data_set_id, e.order_id, e.currency_code, e.event_time, e.cp_id,
    row_number() OVER (PARTITION BY e.data_set_id, e.order_id ORDER BY e.received_at, {{id "e.event_id"}}) AS place
  FROM {{.Events}} e
  JOIN named n ON n.data_set_id = e.data_set_id AND n.order_id = e.order_id
  WHERE event_type = 'purchase' AND {{converts}}
)
SELECT
  {{columns "r"}},
  abs(r.value) AS amount, o.event_id AS order_event_id, o.event_time AS order_time, o.cp_id AS order_cp_id
FROM ranked r
LEFT JOIN orders o
  ON o.place = 1 AND o.data_set_id = r.data_set_id AND o.order_id = r.order_id AND o.currency_code = r.currency_code
WHERE r.place = 1
