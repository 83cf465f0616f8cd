-- A tour of the example files. From the root of the repository:
--     dipper sql -f examples/tour.sql

-- A path is a table. The CSV's delimiter, quotes, header and types are guessed; some notes have commas, quotes and
-- newlines in them.
SELECT count(*) AS orders, round(sum(amount), 2) AS turnover, min(ordered_at) AS first_order, max(ordered_at) AS last_order
FROM 'examples/orders.csv';

SELECT note, count(*) AS orders
FROM 'examples/orders.csv'
WHERE note LIKE '%,%' OR note LIKE '%"%'
GROUP BY note
ORDER BY orders DESC, note;

-- What Hive wrote is read with Hive's own statement. Days and campaigns are directories; `summer/sale 50%` is escaped in
-- their names, and __HIVE_DEFAULT_PARTITION__ is NULL.
CREATE DATABASE IF NOT EXISTS shop;
USE shop;

DROP TABLE IF EXISTS page_views;
CREATE EXTERNAL TABLE page_views (
    view_id     BIGINT,
    viewed_at   TIMESTAMP,
    user_id     BIGINT,
    country     STRING,
    url         STRING,
    referrer    STRING,
    tags        ARRAY<STRING>,
    params      MAP<STRING, STRING>,
    device      STRUCT<os: STRING, browser: STRING>,
    duration_ms INT,
    is_bot      BOOLEAN
)
PARTITIONED BY (dt DATE, campaign STRING)
ROW FORMAT DELIMITED
    FIELDS TERMINATED BY '\001'
    COLLECTION ITEMS TERMINATED BY '\002'
    MAP KEYS TERMINATED BY '\003'
STORED AS TEXTFILE
LOCATION 'examples/page_views';

MSCK REPAIR TABLE page_views;
SHOW PARTITIONS page_views;

-- One row, whole.
SELECT * FROM page_views ORDER BY 1 LIMIT 1;

-- How did the week go? Bots are left out.
SELECT dt, count(*) AS views, count(DISTINCT user_id) AS users, round(avg(duration_ms) / 1000, 1) AS seconds
FROM page_views
WHERE NOT is_bot
GROUP BY dt
ORDER BY dt;

-- Which campaign brings people who stay? Only the directories of two days are read.
SELECT coalesce(campaign, '(none)') AS campaign, count(*) AS views, round(avg(duration_ms) / 1000, 1) AS seconds
FROM page_views
WHERE dt BETWEEN '2024-06-01' AND '2024-06-02' AND NOT is_bot
GROUP BY campaign
ORDER BY views DESC;

-- Who comes from a search engine?
SELECT country, count(*) AS views
FROM page_views
WHERE referrer LIKE '%google%'
GROUP BY country
ORDER BY views DESC, country
LIMIT 5;

-- Arrays, maps and structs.
SELECT device.os AS os, count(*) AS views
FROM page_views
WHERE array_contains(tags, 'sale') AND array_contains(map_keys(params), 'coupon')
GROUP BY device.os
ORDER BY views DESC, os;

-- All three files together: what is looked at, and what is bought?
SELECT v.category, v.views, o.orders, round(100 * o.orders / v.views, 1) AS percent, o.turnover
FROM (
    SELECT p.category, count(*) AS views
    FROM page_views v
    JOIN 'examples/products.parquet' p ON v.url LIKE concat('%/', p.product_id, '-%')
    WHERE NOT v.is_bot
    GROUP BY p.category
) v
JOIN (
    SELECT p.category, count(*) AS orders, round(sum(o.amount), 2) AS turnover
    FROM 'examples/orders.csv' o
    JOIN 'examples/products.parquet' p ON o.product_id = p.product_id
    GROUP BY p.category
) o ON v.category = o.category
ORDER BY o.turnover DESC;

-- What do the best customers buy?
SELECT o.user_id, count(*) AS orders, round(sum(o.amount), 2) AS turnover, max(p.name) AS one_of_them
FROM 'examples/orders.csv' o
JOIN 'examples/products.parquet' p ON o.product_id = p.product_id
WHERE o.status IN ('paid', 'shipped')
GROUP BY o.user_id
ORDER BY turnover DESC
LIMIT 5;

-- How a query is answered: which directories, columns and filters.
EXPLAIN SELECT count(*) FROM page_views WHERE dt = '2024-06-03' AND country = 'JP';
