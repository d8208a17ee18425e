-- make generate makes this file from internal/measure. Do not change it here.
WITH
reports AS (
  SELECT event_id, data_set_id, {{ sluice.event_type() }} AS event_type, received_at, order_id, sender_event_id,
    CASE WHEN optimization_eligible THEN 1 ELSE 0 END AS eligible,
    CASE WHEN order_id IS NOT NULL THEN 'order' ELSE 'event' END AS key_kind,
    COALESCE(order_id, sender_event_id) AS key_value
  FROM {{ source('sluice', 'events') }}
  WHERE {{ sluice.converts() }} AND (order_id IS NOT NULL OR sender_event_id IS NOT NULL)
),
counted AS (
  SELECT event_id AS report_id, data_set_id AS report_set, event_type AS report_type, received_at AS report_time,
    row_number() OVER (PARTITION BY key_value, key_kind, event_type, data_set_id ORDER BY received_at, lower(CAST(event_id AS VARCHAR))) AS place,
    count(*) OVER (PARTITION BY key_value, key_kind, event_type, data_set_id) AS reports,
    min(eligible) OVER (PARTITION BY key_value, key_kind, event_type, data_set_id) AS eligible
  FROM reports
),
repeated AS (
  SELECT report_id, report_set, report_type, report_time, place, reports, eligible
  FROM counted
  WHERE reports > 1
)
SELECT
  e.event_id, e.submission_id, e.submission_index, e.received_at, e.data_set_id, e.event_time,
  {{ sluice.event_type() }} AS event_type, e.custom_event_name, e.source, e.cp_id, e.cp_name, e.referer,
  e.page_url, e.value, e.currency_code, e.email_sha256, e.ifa, e.ip_sha256,
  e.partner_id, e.gpp_string, e.gpp_sid, e.us_privacy_string, e.privacy, e.late,
  e.mmt_only, (COALESCE(r.eligible, 1) = 1 AND e.optimization_eligible) AS optimization_eligible, e.custom_data, e.schema_version, e.sender_event_id, e.order_id,
  COALESCE(r.reports, 1) AS reports
FROM {{ source('sluice', 'events') }} e
LEFT JOIN repeated r ON r.report_id = e.event_id AND r.report_set = e.data_set_id
WHERE {{ sluice.converts() }} AND COALESCE(r.place, 1) = 1
