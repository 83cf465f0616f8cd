{{ config(materialized='view') }}
select id, city, amount * {{ var('prices') }} as amount, cast(date_add(at, interval {{ var('prices') }} day) as datetime) as at from {{ ref('orders') }}
