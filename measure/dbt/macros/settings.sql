{% macro literal(text) %}'{{ text | string | replace("'", "''") }}'{% endmacro %}

{% macro literals(texts) %}{% for text in texts %}{{ sluice.literal(text) }}{{ ", " if not loop.last }}{% endfor %}{% endmacro %}

{# The conversion types: plain ones, or the names of custom events. #}
{% macro conversion_types(custom) %}
  {% set types = var('sluice_conversion_types') %}
  {% if types is string or types is not iterable or types | length == 0 or types | unique | list | length < types | length %}
    {{ exceptions.raise_compiler_error("sluice_conversion_types is a list of event types, each named once") }}
  {% endif %}
  {% set plain, names = [], [] %}
  {% for type in types %}
    {% if type.startswith('custom:') and type[7:] | trim != '' %}
      {% do names.append(type[7:]) %}
    {% elif type in sluice.event_types() and type not in ('custom', 'refund') %}
      {% do plain.append(type) %}
    {% else %}
      {{ exceptions.raise_compiler_error("sluice_conversion_types: " ~ type ~ " is not an event type that can be a conversion. Custom events are custom:NAME") }}
    {% endif %}
  {% endfor %}
  {{ return(names if custom else plain) }}
{% endmacro %}

{# The condition that a row of events is of a conversion type. #}
{% macro converts() %}
  {%- set plain, names = sluice.conversion_types(false), sluice.conversion_types(true) -%}
  (
  {%- if plain %}event_type IN ({{ sluice.literals(plain) }}){% endif -%}
  {%- if plain and names %} OR {% endif -%}
  {%- if names %}event_type = 'custom' AND custom_event_name IN ({{ sluice.literals(names) }}){% endif -%}
  )
{%- endmacro %}

{# The event type as the models have it. #}
{% macro event_type() %}
  {%- set names = sluice.conversion_types(true) -%}
  {%- if names -%}
    CASE WHEN event_type = 'custom' AND custom_event_name IN ({{ sluice.literals(names) }}) THEN concat('custom:', custom_event_name) ELSE event_type END
  {%- else -%}
    event_type
  {%- endif -%}
{% endmacro %}

{# The window in microseconds. #}
{% macro window_micros() %}
  {%- set text = var('sluice_window') | string -%}
  {%- set seconds = {'d': 86400, 'h': 3600, 'm': 60, 's': 1}.get(text[-1:], 0) * (text[:-1] | int(0)) -%}
  {%- if not text[:-1].isdigit() or seconds < 1 or seconds > 365 * 86400 -%}
    {{ exceptions.raise_compiler_error("sluice_window is a number of days, hours, minutes or seconds up to 365 days, such as 30d or 12h") }}
  {%- endif -%}
  {{ seconds * 1000000 }}
{%- endmacro %}

{% macro household_max() %}
  {%- set most = var('sluice_household_max') | int(0) -%}
  {%- if most < 1 -%}
    {{ exceptions.raise_compiler_error("sluice_household_max is a number of people, at least 1") }}
  {%- endif -%}
  {{ most }}
{%- endmacro %}

{# DuckDB itself rejects a zone that it does not know. #}
{% macro time_zone() %}{{ sluice.literal(var('sluice_time_zone')) }}{% endmacro %}
