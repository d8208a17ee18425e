WITH
{{template "reports" .}},
received AS (
  SELECT data_set_id, {{day "received_at"}} AS day, {{type ""}} AS event_type,
    email_sha256, ifa, ip_sha256, partner_id, late, privacy
  FROM {{.Events}}
),
totals AS (
  SELECT data_set_id, day, event_type, count(*) AS events,
    CAST(count(email_sha256) AS DOUBLE) / count(*) AS email_share,
    CAST(count(ifa) AS DOUBLE) / count(*) AS ifa_share,
    CAST(count(ip_sha256) AS DOUBLE) / count(*) AS ip_share,
    CAST(count(partner_id) AS DOUBLE) / count(*) AS partner_share,
    count(CASE WHEN late THEN 1 END) AS late,
    count(CASE WHEN privacy = 'measurement_only' THEN 1 END) AS restricted,
    count(CASE WHEN privacy = 'suppressed' THEN 1 END) AS suppressed
  FROM received
  GROUP BY data_set_id, day, event_type
),
unordered AS (
  SELECT DISTINCT data_set_id, event_type, sender_event_id
  FROM reports
  WHERE order_id IS NULL AND sender_event_id IS NOT NULL
),
noted AS (
  SELECT report_set AS data_set_id, {{day "report_time"}} AS day, report_type AS event_type, 'again' AS note
  FROM repeated
  WHERE place > 1
  UNION ALL
  SELECT r.data_set_id, {{day "r.received_at"}}, r.event_type, 'joined'
  FROM reports r
  JOIN unordered u ON u.data_set_id = r.data_set_id AND u.event_type = r.event_type AND u.sender_event_id = r.sender_event_id
  WHERE r.order_id IS NOT NULL
),
again AS (
  SELECT data_set_id, day, event_type,
    count(CASE WHEN note = 'again' THEN 1 END) AS sent_again, count(CASE WHEN note = 'joined' THEN 1 END) AS joined_by_event_id
  FROM noted
  GROUP BY data_set_id, day, event_type
)
SELECT t.data_set_id, t.day, t.event_type, t.events, t.email_share, t.ifa_share, t.ip_share, t.partner_share,
  t.late, t.restricted, t.suppressed,
  COALESCE(a.sent_again, 0) AS sent_again, COALESCE(a.joined_by_event_id, 0) AS joined_by_event_id
FROM totals t
LEFT JOIN again a ON a.data_set_id = t.data_set_id AND a.day = t.day AND a.event_type = t.event_type
