{% snapshot orders_snapshot %}
{# dbt-starrocks cannot check columns with this dbt. #}
{% if target.type == 'starrocks' %}
{{ config(target_schema=target.schema, unique_key='id', strategy='timestamp', updated_at='at') }}
{% else %}
{{ config(target_schema=target.schema, unique_key='id', strategy='check', check_cols=['amount']) }}
{% endif %}
select id, city, amount, at from {{ ref('orders_view') }}
{% endsnapshot %}
