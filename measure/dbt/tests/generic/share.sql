{# A share is from 0 to 1. #}
{% test share(model, column_name) %}
SELECT {{ column_name }} FROM {{ model }} WHERE {{ column_name }} NOT BETWEEN 0 AND 1
{% endtest %}
