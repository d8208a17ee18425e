WITH
{{template "touched" .}}
SELECT impression_id, impression_time, data_set_id, cp_id, {{basis}} AS basis, spelled AS identifier, optimization_eligible
FROM touched
