{{ config(materialized='incremental', unique_key='id', unique_key_order=['id'], keys=['id'], table_type='PRIMARY', distributed_by=['id'], buckets=1, properties={'replication_num': '1'}) }}
select id, city, amount from {{ ref('orders_view') }}
{% if is_incremental() %} where id >= (select max(id) from {{ this }}) {% endif %}
