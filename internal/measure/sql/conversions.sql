WITH
{{template "reports" .}}
SELECT
  {{columns "e" "event_type" (type "") "optimization_eligible" "(COALESCE(r.eligible, 1) = 1 AND e.optimization_eligible)"}},
  COALESCE(r.reports, 1) AS reports
FROM {{.Events}} e
LEFT JOIN repeated r ON r.report_id = e.event_id AND r.report_set = e.data_set_id
WHERE {{converts}} AND COALESCE(r.place, 1) = 1
