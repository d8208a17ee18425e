WITH
{{template "reports" .}}
SELECT
  {{columns "e" "data_set_id" "r.data_set_id" "event_type" "r.event_type" "optimization_eligible" "(r.eligible = 1)"}},
  r.reports
FROM ranked r
JOIN {{.Events}} e ON e.event_id = r.event_id AND e.data_set_id = r.data_set_id
WHERE r.place = 1
