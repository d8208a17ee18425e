{{define "reports"}}
reports AS (
  SELECT event_id, data_set_id, {{type ""}} AS event_type, received_at, order_id, sender_event_id,
    CASE WHEN optimization_eligible THEN 1 ELSE 0 END AS eligible,
    CASE WHEN order_id IS NOT NULL THEN 'order' ELSE 'event' END AS key_kind,
    COALESCE(order_id, sender_event_id) AS key_value
  FROM {{.Events}}
  WHERE {{converts}} AND (order_id IS NOT NULL OR sender_event_id IS NOT NULL)
),
counted AS (
  SELECT event_id AS report_id, data_set_id AS report_set, event_type AS report_type, received_at AS report_time,
    row_number() OVER (PARTITION BY key_value, key_kind, event_type, data_set_id ORDER BY received_at, {{id "event_id"}}) AS place,
    count(*) OVER (PARTITION BY key_value, key_kind, event_type, data_set_id) AS reports,
    min(eligible) OVER (PARTITION BY key_value, key_kind, event_type, data_set_id) AS eligible
  FROM reports
),
repeated AS (
  SELECT report_id, report_set, report_type, report_time, place, reports, eligible
  FROM counted
  WHERE reports > 1
){{end}}

{{define "touched"}}
busy AS (
  SELECT 3 AS basis, e.data_set_id, {{if .Impressions}}{{hex "e.ip_sha256"}} AS ip_sha256{{else}}e.ip_sha256{{end}}
  FROM {{.Events}} e
  JOIN (
    SELECT data_set_id, ip_sha256
    FROM {{.Events}}
    WHERE ip_sha256 IS NOT NULL
    GROUP BY data_set_id, ip_sha256
    HAVING count(*) > {{.HouseholdMax}}
  ) m ON m.data_set_id = e.data_set_id AND m.ip_sha256 = e.ip_sha256
  GROUP BY e.data_set_id, e.ip_sha256
  HAVING count(DISTINCT e.email_sha256) > {{.HouseholdMax}} OR count(DISTINCT {{fold "e.ifa"}}) > {{.HouseholdMax}}
),
shown AS (
{{if .Impressions}}
  SELECT {{id "impression_id"}} AS impression_id, impression_time, {{text "data_set_id"}} AS data_set_id, {{text "cp_id"}} AS cp_id,
    {{anyHex "email_sha256"}} AS email_sha256,
    {{fold (text "ifa")}} AS ifa,
    {{anyHex "ip_sha256"}} AS ip_sha256,
    TRUE AS optimization_eligible
  FROM {{.Impressions}}
{{else}}
  SELECT {{id "event_id"}} AS impression_id, event_time AS impression_time, data_set_id, cp_id, email_sha256,
    {{fold "ifa"}} AS ifa, ip_sha256, optimization_eligible
  FROM {{.Events}}
  WHERE event_type = 'ad_impression' AND privacy <> 'suppressed'
{{end}}
),
touched AS (
  SELECT s.impression_id, s.impression_time, s.data_set_id, s.cp_id, b.basis,
    {{if .Impressions}}CASE WHEN s.data_set_id <> '' THEN s.data_set_id WHEN s.data_set_id IS NULL THEN '' END{{else}}s.data_set_id{{end}} AS place,
    {{identifier "s"}} AS identifier,
    {{spelled "s"}} AS spelled,
    s.optimization_eligible
  FROM shown s
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  LEFT JOIN busy x ON x.basis = b.basis AND x.data_set_id = s.data_set_id AND x.ip_sha256 = s.ip_sha256
  WHERE {{identifier "s"}} IS NOT NULL AND x.data_set_id IS NULL
){{end}}
