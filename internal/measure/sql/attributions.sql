WITH
{{template "touched" .}},
converted AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, privacy,
    {{if .Impressions}}{{hex "email_sha256"}} AS email_sha256{{else}}email_sha256{{end}},
    {{fold "ifa"}} AS ifa,
    {{if .Impressions}}{{hex "ip_sha256"}} AS ip_sha256{{else}}ip_sha256{{end}}
  FROM conversions
  WHERE privacy <> 'suppressed'
),
asked AS (
{{if .Impressions}}
  SELECT c.event_id, c.data_set_id, c.event_type, c.event_time, c.value, c.currency_code, c.optimization_eligible, b.basis,
    CASE WHEN w.place = 'dataset' THEN c.data_set_id ELSE '' END AS place, {{identifier "c"}} AS identifier
  FROM converted c
  CROSS JOIN (VALUES ('person'), ('device'), ('household')) AS b (basis)
  CROSS JOIN (VALUES ('dataset'), ('anywhere')) AS w (place)
  LEFT JOIN busy x ON b.basis = 'household' AND x.data_set_id = c.data_set_id AND x.ip_sha256 = c.ip_sha256
  WHERE {{identifier "c"}} IS NOT NULL
    AND (w.place = 'dataset' OR c.privacy <> 'measurement_only' AND x.data_set_id IS NULL)
{{else}}
  SELECT c.event_id, c.data_set_id, c.event_type, c.event_time, c.value, c.currency_code, c.optimization_eligible, b.basis,
    c.data_set_id AS place, {{identifier "c"}} AS identifier
  FROM converted c
  CROSS JOIN (VALUES ('person'), ('device'), ('household')) AS b (basis)
  WHERE {{identifier "c"}} IS NOT NULL
{{end}}
),
time_line AS (
  SELECT COALESCE(data_set_id, '') AS place, basis, identifier, {{micros "impression_time"}} AS at_micros, 0 AS turn,
    impression_id, cp_id,
    {{pack "impression_id" "impression_time" (micros "impression_time") "cp_id" "optimization_eligible"}} AS seen,
    NULL AS event_id, NULL AS data_set_id, NULL AS event_type, NULL AS event_time, NULL AS value, NULL AS currency_code,
    NULL AS optimization_eligible
  FROM touched
  UNION ALL
  SELECT a.place, a.basis, a.identifier, {{micros "a.event_time"}}, 1, NULL, NULL, NULL,
    a.event_id, a.data_set_id, a.event_type, a.event_time, a.value, a.currency_code, a.optimization_eligible
  FROM asked a
  JOIN (
    SELECT DISTINCT COALESCE(data_set_id, '') AS place, basis, identifier FROM touched
  ) k ON k.place = a.place AND k.basis = a.basis AND k.identifier = a.identifier
),
looked_back AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, basis, turn, at_micros,
    {{last "seen" "PARTITION BY place, basis, identifier ORDER BY at_micros, turn, impression_id DESC, cp_id DESC NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"}} AS seen
  FROM time_line
),
matched AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, basis, at_micros,
    {{unpack "seen" "impression_id"}} AS impression_id, {{unpack "seen" "impression_time"}} AS impression_time,
    {{unpack "seen" "impression_micros"}} AS impression_micros, {{unpack "seen" "cp_id"}} AS cp_id,
    {{unpack "seen" "optimization_eligible"}} AS impression_eligible
  FROM looked_back
  WHERE turn = 1 AND seen IS NOT NULL
),
ranked AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, basis, at_micros,
    impression_id, impression_time, impression_micros, cp_id, impression_eligible,
    row_number() OVER (
      PARTITION BY event_id
      ORDER BY CASE WHEN basis = 'household' THEN 1 ELSE 0 END, impression_micros DESC, impression_id,
        CASE WHEN basis = 'person' THEN 0 ELSE 1 END, cp_id NULLS LAST
    ) AS choice
  FROM matched
  WHERE at_micros - impression_micros < {{windowMax}}
)
SELECT event_id, data_set_id, event_type, event_time, value, currency_code, impression_id, impression_time, cp_id, basis,
  CAST(floor((at_micros - impression_micros) / 1000000) AS BIGINT) AS delay_seconds,
  (optimization_eligible AND impression_eligible) AS optimization_eligible
FROM ranked
WHERE choice = 1
