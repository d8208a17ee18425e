-- make generate makes this file from internal/measure. Do not change it here.
WITH
reports AS (
  SELECT event_id, data_set_id, {{ sluice.event_type() }} AS event_type, received_at, order_id, sender_event_id,
    CASE WHEN optimization_eligible THEN 1 ELSE 0 END AS eligible,
    CASE WHEN order_id IS NOT NULL THEN 'order' WHEN sender_event_id IS NOT NULL THEN 'event' ELSE 'row' END AS key_kind,
    COALESCE(order_id, sender_event_id, lower(CAST(event_id AS VARCHAR))) AS key_value
  FROM {{ source('sluice', 'events') }}
  WHERE {{ sluice.converts() }}
),
ranked AS (
  SELECT event_id, data_set_id, event_type, received_at, order_id, sender_event_id,
    row_number() OVER (PARTITION BY data_set_id, event_type, key_kind, key_value ORDER BY received_at, lower(CAST(event_id AS VARCHAR))) AS place,
    count(*) OVER (PARTITION BY data_set_id, event_type, key_kind, key_value) AS reports,
    min(eligible) OVER (PARTITION BY data_set_id, event_type, key_kind, key_value) AS eligible
  FROM reports
)
SELECT
  e.event_id, e.submission_id, e.submission_index, e.received_at, r.data_set_id AS data_set_id, e.event_time,
  r.event_type AS event_type, e.custom_event_name, e.source, e.cp_id, e.cp_name, e.referer,
  e.page_url, e.value, e.currency_code, e.email_sha256, e.ifa, e.ip_sha256,
  e.partner_id, e.gpp_string, e.gpp_sid, e.us_privacy_string, e.privacy, e.late,
  e.mmt_only, (r.eligible = 1) AS optimization_eligible, e.custom_data, e.schema_version, e.sender_event_id, e.order_id,
  r.reports
FROM ranked r
JOIN {{ source('sluice', 'events') }} e ON e.event_id = r.event_id AND e.data_set_id = r.data_set_id
WHERE r.place = 1
