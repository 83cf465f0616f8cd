select 1 as wrong from (select sum(total) as s, sum(orders) as n from {{ ref('by_city') }}) x where s <> 35 * {{ var('prices') }} or n <> 3
union all
select 1 from (select count(*) as n from {{ ref('grown') }}) x where n <> 3
