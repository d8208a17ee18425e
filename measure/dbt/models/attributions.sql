-- make generate makes this file from internal/measure. Do not change it here.
{% if var('sluice_impressions') %}
WITH
busy AS (
  SELECT 3 AS basis, e.data_set_id, lower(hex(e.ip_sha256)) AS ip_sha256
  FROM {{ source('sluice', 'events') }} e
  JOIN (
    SELECT data_set_id, ip_sha256
    FROM {{ source('sluice', 'events') }}
    WHERE ip_sha256 IS NOT NULL
    GROUP BY data_set_id, ip_sha256
    HAVING count(*) > {{ sluice.household_max() }}
  ) m ON m.data_set_id = e.data_set_id AND m.ip_sha256 = e.ip_sha256
  GROUP BY e.data_set_id, e.ip_sha256
  HAVING count(DISTINCT e.email_sha256) > {{ sluice.household_max() }} OR count(DISTINCT CASE WHEN regexp_full_match(e.ifa, '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(e.ifa) ELSE e.ifa END) > {{ sluice.household_max() }}
),
shown AS (
  SELECT lower(CAST(impression_id AS VARCHAR)) AS impression_id, impression_time, CAST(data_set_id AS VARCHAR) AS data_set_id, CAST(cp_id AS VARCHAR) AS cp_id,
    CASE WHEN typeof(email_sha256) = 'BLOB' THEN lower(hex(CAST(email_sha256 AS BLOB))) ELSE lower(CAST(email_sha256 AS VARCHAR)) END AS email_sha256,
    CASE WHEN regexp_full_match(CAST(ifa AS VARCHAR), '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(CAST(ifa AS VARCHAR)) ELSE CAST(ifa AS VARCHAR) END AS ifa,
    CASE WHEN typeof(ip_sha256) = 'BLOB' THEN lower(hex(CAST(ip_sha256 AS BLOB))) ELSE lower(CAST(ip_sha256 AS VARCHAR)) END AS ip_sha256,
    TRUE AS optimization_eligible
  FROM {{ ref(var('sluice_impressions')) }}
),
touched AS (
  SELECT s.impression_id, s.impression_time, s.data_set_id, s.cp_id, b.basis,
    CASE WHEN s.data_set_id <> '' THEN s.data_set_id WHEN s.data_set_id IS NULL THEN '' END AS place,
    CASE b.basis WHEN 1 THEN s.email_sha256 WHEN 2 THEN s.ifa ELSE s.ip_sha256 END AS identifier,
    CASE b.basis WHEN 1 THEN s.email_sha256 WHEN 2 THEN s.ifa ELSE s.ip_sha256 END AS spelled,
    s.optimization_eligible
  FROM shown s
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  LEFT JOIN busy x ON x.basis = b.basis AND x.data_set_id = s.data_set_id AND x.ip_sha256 = s.ip_sha256
  WHERE CASE b.basis WHEN 1 THEN s.email_sha256 WHEN 2 THEN s.ifa ELSE s.ip_sha256 END IS NOT NULL AND x.data_set_id IS NULL
),
converted AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, privacy,
    lower(hex(email_sha256)) AS email_sha256,
    CASE WHEN regexp_full_match(ifa, '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(ifa) ELSE ifa END AS ifa,
    lower(hex(ip_sha256)) AS ip_sha256
  FROM {{ ref('sluice', 'conversions') }}
  WHERE privacy <> 'suppressed'
),
asked AS (
  SELECT c.event_id, c.data_set_id, c.event_type, c.event_time, c.value, c.currency_code, c.optimization_eligible, b.basis,
    CASE WHEN w.place = 'dataset' THEN c.data_set_id ELSE '' END AS place, CASE b.basis WHEN 1 THEN c.email_sha256 WHEN 2 THEN c.ifa ELSE c.ip_sha256 END AS identifier
  FROM converted c
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  CROSS JOIN (VALUES ('dataset'), ('anywhere')) AS w (place)
  LEFT JOIN busy x ON x.basis = b.basis AND x.data_set_id = c.data_set_id AND x.ip_sha256 = c.ip_sha256
  WHERE CASE b.basis WHEN 1 THEN c.email_sha256 WHEN 2 THEN c.ifa ELSE c.ip_sha256 END IS NOT NULL
    AND (w.place = 'dataset' OR c.privacy <> 'measurement_only' AND x.data_set_id IS NULL)
),
known AS (
  SELECT place, basis, identifier, count(*) AS impressions
  FROM touched
  GROUP BY place, basis, identifier
  HAVING count(*) > 0 AND min(basis) > 0
),
sought AS (
  SELECT a.event_id, a.data_set_id, a.event_type, a.event_time, a.value, a.currency_code, a.optimization_eligible,
    a.place, a.basis, a.identifier, epoch_us(a.event_time) AS at_micros, k.impressions
  FROM asked a
  JOIN known k ON k.place = a.place AND k.basis = a.basis AND k.identifier = a.identifier
),
time_line AS (
  SELECT t.place, t.basis, t.identifier, epoch_us(t.impression_time) AS at_micros,
    epoch_us(t.impression_time) AS seen_micros,
    NULL AS event_id, NULL AS data_set_id, NULL AS event_type, NULL AS event_time, NULL AS value, NULL AS currency_code,
    NULL AS optimization_eligible
  FROM touched t
  JOIN known k ON k.place = t.place AND k.basis = t.basis AND k.identifier = t.identifier
  WHERE k.impressions > 16
  UNION ALL
  SELECT place, basis, identifier, at_micros, NULL,
    event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible
  FROM sought
  WHERE impressions > 16
),
looked_back AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, place, basis, identifier,
    at_micros, max(seen_micros) OVER (PARTITION BY identifier, basis, place ORDER BY at_micros) AS seen_micros
  FROM time_line
),
paired AS (
  SELECT s.event_id, s.data_set_id, s.event_type, s.event_time, s.value, s.currency_code, s.basis, s.at_micros,
    epoch_us(t.impression_time) AS seen_micros, t.impression_id, t.impression_time, t.cp_id,
    (s.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM sought s
  JOIN touched t ON t.identifier = s.identifier AND t.basis = s.basis AND t.place = s.place
  WHERE s.impressions <= 16 AND epoch_us(t.impression_time) <= s.at_micros
  UNION ALL
  SELECT l.event_id, l.data_set_id, l.event_type, l.event_time, l.value, l.currency_code, l.basis, l.at_micros, l.seen_micros,
    t.impression_id, t.impression_time, t.cp_id,
    (l.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM looked_back l
  JOIN touched t ON t.identifier = l.identifier AND t.basis = l.basis AND t.place = l.place
    AND epoch_us(t.impression_time) = l.seen_micros
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
  WHERE at_micros - seen_micros < {{ sluice.window_micros() }}
)
SELECT event_id, data_set_id, event_type, event_time, value, currency_code, impression_id, impression_time, cp_id,
  CASE basis WHEN 1 THEN 'person' WHEN 2 THEN 'device' ELSE 'household' END AS basis,
  CAST(floor((at_micros - seen_micros) / 1000000) AS BIGINT) AS delay_seconds, optimization_eligible
FROM ranked
WHERE choice = 1
{% else %}
WITH
busy AS (
  SELECT 3 AS basis, e.data_set_id, e.ip_sha256
  FROM {{ source('sluice', 'events') }} e
  JOIN (
    SELECT data_set_id, ip_sha256
    FROM {{ source('sluice', 'events') }}
    WHERE ip_sha256 IS NOT NULL
    GROUP BY data_set_id, ip_sha256
    HAVING count(*) > {{ sluice.household_max() }}
  ) m ON m.data_set_id = e.data_set_id AND m.ip_sha256 = e.ip_sha256
  GROUP BY e.data_set_id, e.ip_sha256
  HAVING count(DISTINCT e.email_sha256) > {{ sluice.household_max() }} OR count(DISTINCT CASE WHEN regexp_full_match(e.ifa, '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(e.ifa) ELSE e.ifa END) > {{ sluice.household_max() }}
),
shown AS (
  SELECT lower(CAST(event_id AS VARCHAR)) AS impression_id, event_time AS impression_time, data_set_id, cp_id, email_sha256,
    CASE WHEN regexp_full_match(ifa, '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(ifa) ELSE ifa END AS ifa, ip_sha256, optimization_eligible
  FROM {{ source('sluice', 'events') }}
  WHERE event_type = 'ad_impression' AND privacy <> 'suppressed'
),
touched AS (
  SELECT s.impression_id, s.impression_time, s.data_set_id, s.cp_id, b.basis,
    s.data_set_id AS place,
    CASE b.basis WHEN 1 THEN s.email_sha256 WHEN 2 THEN encode(s.ifa) ELSE s.ip_sha256 END AS identifier,
    CASE b.basis WHEN 1 THEN lower(hex(s.email_sha256)) WHEN 2 THEN s.ifa ELSE lower(hex(s.ip_sha256)) END AS spelled,
    s.optimization_eligible
  FROM shown s
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  LEFT JOIN busy x ON x.basis = b.basis AND x.data_set_id = s.data_set_id AND x.ip_sha256 = s.ip_sha256
  WHERE CASE b.basis WHEN 1 THEN s.email_sha256 WHEN 2 THEN encode(s.ifa) ELSE s.ip_sha256 END IS NOT NULL AND x.data_set_id IS NULL
),
converted AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, privacy,
    email_sha256,
    CASE WHEN regexp_full_match(ifa, '^([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})$') THEN lower(ifa) ELSE ifa END AS ifa,
    ip_sha256
  FROM {{ ref('sluice', 'conversions') }}
  WHERE privacy <> 'suppressed'
),
asked AS (
  SELECT c.event_id, c.data_set_id, c.event_type, c.event_time, c.value, c.currency_code, c.optimization_eligible, b.basis,
    c.data_set_id AS place, CASE b.basis WHEN 1 THEN c.email_sha256 WHEN 2 THEN encode(c.ifa) ELSE c.ip_sha256 END AS identifier
  FROM converted c
  CROSS JOIN (VALUES (1), (2), (3)) AS b (basis)
  WHERE CASE b.basis WHEN 1 THEN c.email_sha256 WHEN 2 THEN encode(c.ifa) ELSE c.ip_sha256 END IS NOT NULL
),
known AS (
  SELECT place, basis, identifier, count(*) AS impressions
  FROM touched
  GROUP BY place, basis, identifier
  HAVING count(*) > 0 AND min(basis) > 0
),
sought AS (
  SELECT a.event_id, a.data_set_id, a.event_type, a.event_time, a.value, a.currency_code, a.optimization_eligible,
    a.place, a.basis, a.identifier, epoch_us(a.event_time) AS at_micros, k.impressions
  FROM asked a
  JOIN known k ON k.place = a.place AND k.basis = a.basis AND k.identifier = a.identifier
),
time_line AS (
  SELECT t.place, t.basis, t.identifier, epoch_us(t.impression_time) AS at_micros,
    epoch_us(t.impression_time) AS seen_micros,
    NULL AS event_id, NULL AS data_set_id, NULL AS event_type, NULL AS event_time, NULL AS value, NULL AS currency_code,
    NULL AS optimization_eligible
  FROM touched t
  JOIN known k ON k.place = t.place AND k.basis = t.basis AND k.identifier = t.identifier
  WHERE k.impressions > 16
  UNION ALL
  SELECT place, basis, identifier, at_micros, NULL,
    event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible
  FROM sought
  WHERE impressions > 16
),
looked_back AS (
  SELECT event_id, data_set_id, event_type, event_time, value, currency_code, optimization_eligible, place, basis, identifier,
    at_micros, max(seen_micros) OVER (PARTITION BY identifier, basis, place ORDER BY at_micros) AS seen_micros
  FROM time_line
),
paired AS (
  SELECT s.event_id, s.data_set_id, s.event_type, s.event_time, s.value, s.currency_code, s.basis, s.at_micros,
    epoch_us(t.impression_time) AS seen_micros, t.impression_id, t.impression_time, t.cp_id,
    (s.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM sought s
  JOIN touched t ON t.identifier = s.identifier AND t.basis = s.basis AND t.place = s.place
  WHERE s.impressions <= 16 AND epoch_us(t.impression_time) <= s.at_micros
  UNION ALL
  SELECT l.event_id, l.data_set_id, l.event_type, l.event_time, l.value, l.currency_code, l.basis, l.at_micros, l.seen_micros,
    t.impression_id, t.impression_time, t.cp_id,
    (l.optimization_eligible AND t.optimization_eligible) AS optimization_eligible
  FROM looked_back l
  JOIN touched t ON t.identifier = l.identifier AND t.basis = l.basis AND t.place = l.place
    AND epoch_us(t.impression_time) = l.seen_micros
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
  WHERE at_micros - seen_micros < {{ sluice.window_micros() }}
)
SELECT event_id, data_set_id, event_type, event_time, value, currency_code, impression_id, impression_time, cp_id,
  CASE basis WHEN 1 THEN 'person' WHEN 2 THEN 'device' ELSE 'household' END AS basis,
  CAST(floor((at_micros - seen_micros) / 1000000) AS BIGINT) AS delay_seconds, optimization_eligible
FROM ranked
WHERE choice = 1
{% endif %}
