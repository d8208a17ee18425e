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
)
SELECT impression_id, impression_time, data_set_id, cp_id, CASE basis WHEN 1 THEN 'person' WHEN 2 THEN 'device' ELSE 'household' END AS basis, spelled AS identifier, optimization_eligible
FROM touched
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
)
SELECT impression_id, impression_time, data_set_id, cp_id, CASE basis WHEN 1 THEN 'person' WHEN 2 THEN 'device' ELSE 'household' END AS basis, spelled AS identifier, optimization_eligible
FROM touched
{% endif %}
