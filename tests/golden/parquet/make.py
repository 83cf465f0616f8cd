"""Makes the files of this directory (pyarrow 18 or later)."""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent

table = pa.table({"n": pa.array([i * i for i in range(40)], pa.int64()),
                  "s": pa.array([None if i % 7 == 3 else f"row {i * 37 % 40}" for i in range(40)], pa.string())})
for version in ("1.0", "2.0"):
    pq.write_table(table, HERE / f"checksums_{version[0]}.parquet", compression="none", use_dictionary=["s"],
                   data_page_version=version, write_page_checksum=True, write_statistics=False, store_schema=False)
