{# Each combination of the columns is there once. Two nulls are the same. #}
{% test unique_together(model, columns) %}
SELECT {{ columns | join(', ') }}, count(*) AS rows FROM {{ model }} GROUP BY ALL HAVING count(*) > 1
{% endtest %}
