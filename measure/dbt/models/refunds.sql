-- make generate makes this file from internal/measure. Do not change it here.
WITH
ranked AS (
  SELECT event_id, data_set_id,
    row_number() OVER (
      PARTITION BY data_set_id, CASE WHEN sender_event_id IS NOT NULL THEN 'event' ELSE 'row' END,
        COALESCE(sender_event_id, lower(CAST(event_id AS VARCHAR)))
      ORDER BY received_at, lower(CAST(event_id AS VARCHAR))
    ) AS place
  FROM {{ source('sluice', 'events') }}
  WHERE event_type = 'refund'
),
orders AS (
  SELECT event_id, data_set_id, order_id, currency_code, event_time, cp_id
  FROM {{ ref('sluice', 'conversions') }}
  WHERE event_type = 'purchase' AND order_id IS NOT NULL
)
SELECT
  e.event_id, e.submission_id, e.submission_index, e.received_at, r.data_set_id AS data_set_id, e.event_time,
  e.event_type, e.custom_event_name, e.source, e.cp_id, e.cp_name, e.referer,
  e.page_url, e.value, e.currency_code, e.email_sha256, e.ifa, e.ip_sha256,
  e.partner_id, e.gpp_string, e.gpp_sid, e.us_privacy_string, e.privacy, e.late,
  e.mmt_only, e.optimization_eligible, e.custom_data, e.schema_version, e.sender_event_id, e.order_id,
  abs(e.value) AS amount, o.event_id AS order_event_id, o.event_time AS order_time, o.cp_id AS order_cp_id
FROM ranked r
JOIN {{ source('sluice', 'events') }} e ON e.event_id = r.event_id AND e.data_set_id = r.data_set_id
LEFT JOIN orders o ON o.data_set_id = e.data_set_id AND o.order_id = e.order_id AND o.currency_code = e.currency_code
WHERE r.place = 1
