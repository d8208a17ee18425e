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
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  CROSS JOIN (VALUES ('dataset'), ('anywhere')) AS w (place)
  LEFT JOIN busy x ON x.basis = b.basis AND x.data_set_id = c.data_set_id AND x.ip_sha256 = c.ip_sha256
  WHERE {{identifier "c"}} IS NOT NULL
    AND (w.place = 'dataset' OR c.privacy <> 'measurement_only' AND x.data_set_id IS NULL)
{{else}}
  SELECT c.event_id, c.data_set_id, c.event_type, c.event_time, c.value, c.currency_code, c.optimization_eligible, b.basis,
    c.data_set_id AS place, {{identifier "c"}} AS identifier
  FROM converted c
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  WHERE {{identifier "c"}} IS NOT NULL
{{end}}
),
known AS (
  SELECT place, basis, identifier, count(*) AS impressions
  FROM touched
  GROUP BY place, basis, identifier
{{if few}}
  HAVING count(*) > 0 AND min(basis) > 0
{{end}}
),
sought AS (
  SELECT a.event_id, a.data_set_id, a.event_type, a.event_time, a.value, a.currency_code, a.optimization_eligible,
    a.place, a.basis, a.identifier, {{micros "a.event_time"}} AS at_micros, k.impressions
  FROM asked a
  JOIN known k ON k.place = a.place AND k.basis = a.basis AND k.identifier = a.identifier
),
time_line AS (
  SELECT t.place, t.basis, t.identifier, {{micros "t.impression_time"}} AS at_micros,
    {{micros "t.impression_time"}} AS seen_micros,
    NULL AS event_id, NULL AS data_set_id, NULL AS event_type, NULL AS event_time, NULL AS value, NULL AS currency_code,
    NULL AS optimization_eligible
  FROM touched t
{{if few}}
  JOIN known k ON k.place = t.place AND k.basis = t.basis AND k.identifier = t.identifier
  WHERE k.impressions > {{few}}
{{end}}
  UNION ALL
  SELECT place, basis, identifier, at_micros, NULL,
    event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible
  FROM sought
{{if few}}
  WHERE impressions > {{few}}
{{end}}
),
looked_back AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, place, basis, identifier,
    at_micros, max(seen_micros) OVER (PARTITION BY identifier, basis, place ORDER BY at_micros) AS seen_micros
  FROM time_line
),
paired AS (
{{if few}}
  SELECT s.event_id, s.data_set_id, s.event_type, s.event_time, s.value, s.currency_code, s.basis, s.at_micros,
    {{micros "t.impression_time"}} AS seen_micros, t.impression_id, t.impression_time, t.cp_id,
    (s.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM sought s
  JOIN touched t ON t.identifier = s.identifier AND t.basis = s.basis AND t.place = s.place
  WHERE s.impressions <= {{few}} AND {{micros "t.impression_time"}} <= s.at_micros
  UNION ALL
{{end}}
  SELECT l.event_id, l.data_set_id, l.event_type, l.event_time, l.value, l.currency_code, l.basis, l.at_micros, l.seen_micros,
    t.impression_id, t.impression_time, t.cp_id,
    (l.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM looked_back l
  JOIN touched t ON t.identifier = l.identifier AND t.basis = l.basis AND t.place = l.place
    AND {{micros "t.impression_time"}} = l.seen_micros
  WHERE l.event_id IS NOT NULL
),
ranked AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, basis, at_micros, seen_micros,
    impression_id, impression_time, cp_id, optimization_eligible,
    row_number() OVER (
      PARTITION BY event_id
      ORDER BY CASE WHEN basis = 3 THEN 1 ELSE 0 END, seen_micros DESC, impression_id,
        CASE WHEN basis = 1 THEN 0 ELSE 1 END, cp_id NULLS LAST
    ) AS choice
  FROM paired
  WHERE at_micros - seen_micros < {{windowMax}}
)
SELECT event_id, data_set_id, event_type, event_time, value, currency_code, impression_id, impression_time, cp_id,
  {{basis}} AS basis,
  CAST(floor((at_micros - seen_micros) / 1000000) AS BIGINT) AS delay_seconds, optimization_eligible
FROM ranked
WHERE choice = 1
