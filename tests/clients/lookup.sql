drop database if exists {database};
create database {database};
create table {database}.lookup (
  id bigint not null,
  t_boolean boolean,
  t_tinyint tinyint,
  t_smallint smallint,
  t_int int,
  t_bigint bigint,
  t_largeint largeint,
  t_float float,
  t_double double,
  t_decimal decimal(20, 4),
  t_date date,
  t_datetime datetime,
  t_micros datetime(6),
  t_char char(10),
  t_varchar varchar(100),
  t_string string
) unique key (id) distributed by hash (id) buckets 2
properties ("store_row_column" = "true", "enable_unique_key_merge_on_write" = "true");
insert into {database}.lookup values
  (1, true, -128, 32767, -2147483648, 9223372036854775807, '170141183460469231731687303715884105727', 1.5, -2.25,
   -1234567890123456.7891, '2020-01-31', '2020-01-31 01:02:03', '2020-01-31 01:02:03.5', 'abc', 'it''s ä', 'ä漢😀'),
  (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
