-- make generate makes this file from internal/measure. Do not change it here.
WITH
ranked AS (
  SELECT e.event_id, e.submission_id, e.submission_index, e.received_at, e.data_set_id, e.event_time,
  e.event_type, e.custom_event_name, e.source, e.cp_id, e.cp_name, e.referer,
  e.page_url, e.value, e.currency_code, e.email_sha256, e.ifa, e.ip_sha256,
  e.partner_id, e.gpp_string, e.gpp_sid, e.us_privacy_string, e.privacy, e.late,
  e.mmt_only, e.optimization_eligible, e.custom_data, e.schema_version, e.sender_event_id, e.order_id,
    row_number() OVER (
      PARTITION BY data_set_id, CASE WHEN sender_event_id IS NOT NULL THEN 'event' ELSE 'row' END,
        COALESCE(sender_event_id, lower(CAST(event_id AS VARCHAR)))
      ORDER BY received_at, lower(CAST(event_id AS VARCHAR))
    ) AS place
  FROM {{ source('sluice', 'events') }} e
  WHERE event_type = 'refund'
),
named AS (
  SELECT DISTINCT data_set_id, order_id FROM {{ source('sluice', 'events') }} WHERE event_type = 'refund' AND order_id IS NOT NULL
),
orders AS (
  SELECT e.event_id, e.data_set_id, e.order_id, e.currency_code, e.event_time, e.cp_id,
    row_number() OVER (PARTITION BY e.data_set_id, e.order_id ORDER BY e.received_at, lower(CAST(e.event_id AS VARCHAR))) AS place
  FROM {{ source('sluice', 'events') }} e
  JOIN named n ON n.data_set_id = e.data_set_id AND n.order_id = e.order_id
  WHERE event_type = 'purchase' AND {{ sluice.converts() }}
)
SELECT
  r.event_id, r.submission_id, r.submission_index, r.received_at, r.data_set_id, r.event_time,
  r.event_type, r.custom_event_name, r.source, r.cp_id, r.cp_name, r.referer,
  r.page_url, r.value, r.currency_code, r.email_sha256, r.ifa, r.ip_sha256,
  r.partner_id, r.gpp_string, r.gpp_sid, r.us_privacy_string, r.privacy, r.late,
  r.mmt_only, r.optimization_eligible, r.custom_data, r.schema_version, r.sender_event_id, r.order_id,
  abs(r.value) AS amount, o.event_id AS order_event_id, o.event_time AS order_time, o.cp_id AS order_cp_id
FROM ranked r
LEFT JOIN orders o
  ON o.place = 1 AND o.data_set_id = r.data_set_id AND o.order_id = r.order_id AND o.currency_code = r.currency_code
WHERE r.place = 1
