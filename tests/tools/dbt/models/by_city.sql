{{ config(materialized='table') }}
select city, sum(amount) as total, count(*) as orders from {{ ref('orders_view') }} group by city
