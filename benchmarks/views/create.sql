CREATE TABLE views (
    id BIGINT NOT NULL,
    user_name STRING,
    url STRING,
    country STRING,
    tags STRING,
    price DOUBLE,
    ts DATETIME,
    flag BOOLEAN,
    comment STRING,
    session_id BIGINT,
    referer STRING,
    agent STRING,
    ip STRING,
    duration_ms BIGINT,
    bytes_sent BIGINT,
    city STRING
)
DUPLICATE KEY (id)
DISTRIBUTED BY HASH(id) BUCKETS 1
PROPERTIES ("replication_num" = "1");
