-- What a golden directory has: every model, every type of a column, changes of definitions and rows, accounts, views.
CREATE DATABASE shop;
USE shop;

CREATE TABLE orders (id BIGINT, city VARCHAR(32), amount DECIMAL(10, 2), at DATETIME(3), old INT, note STRING)
UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 2
PROPERTIES ('store_row_column' = 'true', 'bloom_filter_columns' = 'city');
INSERT INTO orders SELECT number, elt(number % 3 + 1, 'Rome', 'Oslo', 'Bonn'), number * 1.25,
  date_add('2024-01-01 00:00:00', INTERVAL number MINUTE), number, if(number % 7 = 0, NULL, repeat('note ', number % 5))
FROM numbers('number' = '2000');
INSERT INTO orders VALUES (3, 'Kyiv', 5, '2024-06-01 10:00:00.125', 0, 'replaced'), (9000, 'Lima', 7, NULL, NULL, 'new');
UPDATE orders SET amount = amount + 1 WHERE city = 'Rome' AND id < 100;
DELETE FROM orders WHERE id BETWEEN 50 AND 59;
ALTER TABLE orders ADD COLUMN added DATE DEFAULT '2024-02-29';
ALTER TABLE orders RENAME COLUMN note remark;
ALTER TABLE orders DROP COLUMN old;
SET enable_unique_key_partial_update = true;
INSERT INTO orders (id, city) VALUES (4, 'Nice');
SET enable_unique_key_partial_update = false;

CREATE TABLE types (
  k INT, b BOOLEAN, t TINYINT, s SMALLINT, l LARGEINT, f FLOAT, d DOUBLE, n DECIMAL(38, 10), c CHAR(5), v VARCHAR(20), x STRING,
  day DATE, at DATETIME(6), j JSON, a ARRAY<INT>, m MAP<STRING, INT>, r STRUCT<p: INT, q: STRING>)
DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1 PROPERTIES ('compression' = 'lz4');
INSERT INTO types VALUES
  (1, true, -128, 32767, '170141183460469231731687303715884105727', 1.5, -2.5e300, 12345.6789, 'abc', 'üñí', 'text',
   '2024-02-29', '2024-02-29 23:59:59.999999', '{"a": [1, null]}', [1, NULL, 3], {'a': 1}, named_struct('p', 1, 'q', 'z')),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE daily (
  day DATE, city VARCHAR(32), total BIGINT SUM, least INT MIN, most INT MAX, last STRING REPLACE, users BITMAP BITMAP_UNION, seen HLL HLL_UNION)
AGGREGATE KEY(day, city) PARTITION BY RANGE(day) (
  PARTITION p1 VALUES LESS THAN ('2024-02-01'), PARTITION p2 VALUES LESS THAN ('2024-03-01'))
DISTRIBUTED BY HASH(city) BUCKETS 2;
INSERT INTO daily VALUES ('2024-01-05', 'Rome', 1, 5, 5, 'a', to_bitmap(7), hll_hash('u')), ('2024-02-05', 'Oslo', 2, 6, 6, 'b', to_bitmap(8), hll_hash('v'));
INSERT INTO daily VALUES ('2024-01-05', 'Rome', 10, 1, 9, 'c', to_bitmap(9), hll_hash('w'));
ALTER TABLE daily ADD PARTITION p3 VALUES LESS THAN ('2024-04-01');

CREATE TABLE states (id INT, state VARCHAR(10), version BIGINT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1
PROPERTIES ('function_column.sequence_col' = 'version');
INSERT INTO states VALUES (1, 'shipped', 2), (2, 'paid', 1);
INSERT INTO states VALUES (1, 'paid', 1), (2, 'gone', 5);
DELETE FROM states WHERE id = 2;

CREATE TABLE groups_of_columns (id INT, name VARCHAR(10), city VARCHAR(10), named BIGINT, moved BIGINT)
UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 PROPERTIES ('sequence_mapping.named' = 'name', 'sequence_mapping.moved' = 'city');
INSERT INTO groups_of_columns (id, name, named) VALUES (1, 'Ann', 2);
INSERT INTO groups_of_columns (id, city, moved) VALUES (1, 'Rome', 5);

CREATE TABLE visits (at DATETIME, url VARCHAR(100), INDEX words (url) USING INVERTED) DUPLICATE KEY(at)
AUTO PARTITION BY RANGE (date_trunc(at, 'month')) () DISTRIBUTED BY RANDOM BUCKETS 2;
INSERT INTO visits VALUES ('2024-01-05', '/a'), ('2024-01-20', '/b'), ('2024-02-01', '/a');

CREATE VIEW by_city AS SELECT city, count(*) AS orders, sum(amount) AS turnover FROM orders GROUP BY city;
CREATE ROLE reader COMMENT 'reads';
GRANT SELECT ON shop.* TO ROLE reader;
CREATE USER ann IDENTIFIED BY 'secret' DEFAULT ROLE reader;
GRANT INSERT ON shop.orders TO ann;
SET PROPERTY FOR 'ann' 'max_user_connections' = '5';
CREATE CATALOG lake PROPERTIES ('type' = 'iceberg', 'iceberg.catalog.type' = 'hadoop', 'warehouse' = '/nowhere');
ADMIN COMPACT TABLE states;

-- So many versions of the catalog and of a table that checkpoints are written.
CREATE TABLE counted (k INT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1;
CREATE ROLE role0;
CREATE ROLE role1;
CREATE ROLE role2;
CREATE ROLE role3;
CREATE ROLE role4;
CREATE ROLE role5;
CREATE ROLE role6;
CREATE ROLE role7;
CREATE ROLE role8;
CREATE ROLE role9;
CREATE ROLE role10;
CREATE ROLE role11;
INSERT INTO counted VALUES (0);
INSERT INTO counted VALUES (1);
INSERT INTO counted VALUES (2);
INSERT INTO counted VALUES (3);
INSERT INTO counted VALUES (4);
INSERT INTO counted VALUES (5);
INSERT INTO counted VALUES (6);
INSERT INTO counted VALUES (7);
INSERT INTO counted VALUES (8);
INSERT INTO counted VALUES (9);
INSERT INTO counted VALUES (10);
INSERT INTO counted VALUES (11);
INSERT INTO counted VALUES (12);
INSERT INTO counted VALUES (13);
INSERT INTO counted VALUES (14);
INSERT INTO counted VALUES (15);
INSERT INTO counted VALUES (16);
INSERT INTO counted VALUES (17);
INSERT INTO counted VALUES (18);
INSERT INTO counted VALUES (19);
INSERT INTO counted VALUES (20);
INSERT INTO counted VALUES (21);
INSERT INTO counted VALUES (22);
INSERT INTO counted VALUES (23);
INSERT INTO counted VALUES (24);
INSERT INTO counted VALUES (25);
INSERT INTO counted VALUES (26);
INSERT INTO counted VALUES (27);
INSERT INTO counted VALUES (28);
INSERT INTO counted VALUES (29);
INSERT INTO counted VALUES (30);
INSERT INTO counted VALUES (31);
INSERT INTO counted VALUES (32);
INSERT INTO counted VALUES (33);
INSERT INTO counted VALUES (34);
INSERT INTO counted VALUES (35);
INSERT INTO counted VALUES (36);
INSERT INTO counted VALUES (37);
INSERT INTO counted VALUES (38);
INSERT INTO counted VALUES (39);
INSERT INTO counted VALUES (40);
INSERT INTO counted VALUES (41);
INSERT INTO counted VALUES (42);
INSERT INTO counted VALUES (43);
INSERT INTO counted VALUES (44);
INSERT INTO counted VALUES (45);
INSERT INTO counted VALUES (46);
INSERT INTO counted VALUES (47);
INSERT INTO counted VALUES (48);
INSERT INTO counted VALUES (49);
INSERT INTO counted VALUES (50);
INSERT INTO counted VALUES (51);
INSERT INTO counted VALUES (52);
INSERT INTO counted VALUES (53);
INSERT INTO counted VALUES (54);
INSERT INTO counted VALUES (55);
INSERT INTO counted VALUES (56);
INSERT INTO counted VALUES (57);
INSERT INTO counted VALUES (58);
INSERT INTO counted VALUES (59);
INSERT INTO counted VALUES (60);
INSERT INTO counted VALUES (61);
INSERT INTO counted VALUES (62);
INSERT INTO counted VALUES (63);
INSERT INTO counted VALUES (64);
INSERT INTO counted VALUES (65);
INSERT INTO counted VALUES (66);
INSERT INTO counted VALUES (67);
INSERT INTO counted VALUES (68);
INSERT INTO counted VALUES (69);

CREATE TABLE addresses (a IPV4, b IPV6, l ARRAY<IPV4>) DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1;
INSERT INTO addresses VALUES ('10.1.2.3', '::1', ['9.9.9.9']), (NULL, NULL, NULL);

CREATE TABLE documents (k INT, v VARIANT) DUPLICATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1;
INSERT INTO documents VALUES (1, '{"b": 1, "a": [2.50]}'), (2, NULL);
CREATE TABLE quantiles (k INT, q QUANTILE_STATE QUANTILE_UNION NOT NULL) AGGREGATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1;
INSERT INTO quantiles SELECT 1, to_quantile_state(5, 2048);
INSERT INTO quantiles SELECT 1, to_quantile_state(7, 2048);
CREATE TABLE means (k INT, m AGG_STATE<avg(INT)> GENERIC NOT NULL, b AGG_STATE<max_by(VARCHAR(10), INT)> GENERIC NOT NULL) AGGREGATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1;
INSERT INTO means VALUES (1, avg_state(5), max_by_state('a', 5));
INSERT INTO means VALUES (1, avg_state(8), max_by_state('b', 8));
