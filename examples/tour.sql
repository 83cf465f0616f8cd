-- The whole job in one run: files, a table, a Stream Load into it, an upsert, a look-up, an export.
-- From the directory that has examples/:
--     dipper sql --data DIR --format table -f examples/tour.sql
-- DIR is the directory of the database, and made if it is not there. A line with \! is a command of the shell.
DROP DATABASE IF EXISTS tour;
CREATE DATABASE tour;
USE tour;

\! echo "1. Paths are tables. dipper infers the delimiter, the header and the types of a CSV file."
SELECT p.category, count(*) AS orders, round(sum(o.amount), 2) AS turnover
FROM 'examples/orders.csv' o JOIN 'examples/products.parquet' p ON o.product_id = p.product_id
GROUP BY p.category ORDER BY turnover DESC LIMIT 3;

\! echo "2. Hive's own statement reads what Hive wrote. Days and campaigns are directories."
CREATE EXTERNAL TABLE page_views (
    view_id BIGINT, viewed_at TIMESTAMP, user_id BIGINT, country STRING, url STRING, referrer STRING,
    tags ARRAY<STRING>, params MAP<STRING, STRING>, device STRUCT<os: STRING, browser: STRING>,
    duration_ms INT, is_bot BOOLEAN)
PARTITIONED BY (dt DATE, campaign STRING)
ROW FORMAT DELIMITED FIELDS TERMINATED BY '\001' COLLECTION ITEMS TERMINATED BY '\002' MAP KEYS TERMINATED BY '\003'
STORED AS TEXTFILE LOCATION 'examples/page_views';

SELECT dt, count(*) AS views, count(DISTINCT user_id) AS users, sum(array_contains(tags, 'sale')) AS of_a_sale
FROM page_views WHERE NOT is_bot AND dt >= '2024-06-01' GROUP BY dt ORDER BY dt LIMIT 3;

\! echo "3. A table, and a Stream Load into it: the tour starts a server on a free port and stops it."
CREATE TABLE orders (
    order_id BIGINT, ordered_at DATETIME, user_id BIGINT, product_id INT, quantity INT, amount DECIMAL(10, 2),
    status VARCHAR(16), note STRING)
UNIQUE KEY(order_id) DISTRIBUTED BY HASH(order_id) BUCKETS 4 PROPERTIES ('store_row_column' = 'true');

\! sh examples/stream_load.sh tour orders examples/orders.csv
SELECT count(*) AS orders, count(DISTINCT user_id) AS users, max(ordered_at) AS newest FROM orders;

\! echo "4. An upsert: a row whose key is there replaces the old row."
INSERT INTO orders VALUES (90001, '2024-06-04 10:54:54', 7348, 167, 1, 10.50, 'returned', 'too small'),
                          (99999, '2024-06-08 09:00:00', 7348, 104, 1, 170.82, 'paid', NULL);

\! echo "5. A look-up by key does not scan: the plan says SHORT-CIRCUIT."
EXPLAIN SELECT status, note FROM orders WHERE order_id = 90001;
SELECT order_id, status, note FROM orders WHERE order_id = 90001;

\! echo "6. An export, which is a table again."
COPY (SELECT * FROM orders WHERE status = 'returned') TO '/tmp/dipper-tour.parquet';
SELECT count(*) AS returned, sum(amount) AS turnover FROM '/tmp/dipper-tour.parquet';
\! rm -f /tmp/dipper-tour.parquet
