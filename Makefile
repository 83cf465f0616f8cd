# The two commands a newcomer needs: make run, make test. For those who install dipper: make dist.

# One target directory for all checkouts of a user: a second clone does not build DataFusion again.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/dipper/target
BIN := $(CARGO_TARGET_DIR)/release

# What tests install for themselves.
TESTS := $(HOME)/.cache/dipper/tests

.PHONY: run build dist docs test test-fuzz test-growth test-extremes test-hive test-tools gateway lint bench

## Builds dipper, shows the whole job in a minute (examples/tour.sql), says how to go on.
run: build
	@data=$$(mktemp -d) && trap 'rm -rf "$$data"' EXIT && $(BIN)/dipper sql --data "$$data" --format table -q -f examples/tour.sql
	@echo
	@echo "Next: $(BIN)/dipper sql                      a prompt; SELECT * FROM 'examples/orders.csv' LIMIT 5;"
	@echo "      $(BIN)/dipper server --allow-dir .     a server; mysql -h 127.0.0.1 -P 9030 -u root"
	@echo "      docs/README.md                          guides: files, tables, loading, look-ups, operations"

build:
	cargo build --release -p dipper-cli

## Makes a tarball and a Debian package of the stripped binary in dist/ (packaging/make.py).
dist: build
	python3 packaging/make.py $(BIN)/dipper dist

## Writes the pages of docs/reference that come from the definitions in the code.
docs: build
	$(BIN)/dipper reference docs/reference

## Installs what the tests need and runs all of them.
test: gateway $(TESTS)/tpcds/installed
	cargo fmt --all --check
	cargo test --release --workspace
	SLT_SETTINGS="set global enable_radix_aggregation = true" cargo test --release --workspace --test slt all_files
	SLT_SETTINGS="set global enable_radix_aggregation = true; set global radix_aggregation_table_groups = 1" \
	  cargo test --release --workspace --test slt all_files
	cargo build --release -p dipper-cli
	python3 tests/clients/run.py --server $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/docs/run.py $(BIN)/dipper
	python3 tests/tools/run.py --server $(BIN)/dipper sqlalchemy mysqldump mysqlslap streamloader statements
	python3 tests/http/run.py $(BIN)/dipper
	python3 tests/limits/run.py $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/limits/logins.py $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/files/run.py $(BIN)/dipper
	$(TESTS)/tpcds/bin/python tests/tpcds/run.py $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/differential/run.py $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/faults/stores.py --server $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/faults/iceberg.py --server $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/faults/labels.py --server $(BIN)/dipper
	$(TESTS)/python/venv/bin/python tests/faults/kill.py --server $(BIN)/dipper --cycles 20
	$(TESTS)/python/venv/bin/python tests/faults/loads.py --server $(BIN)/dipper --seconds 25
	python3 tests/faults/joins.py --server $(BIN)/dipper --seconds 40
	$(TESTS)/python/venv/bin/python tests/faults/s3.py --server $(BIN)/dipper
	python3 tests/golden/format/run.py $(BIN)/dipper
	python3 packaging/make.py $(BIN)/dipper dist --preset 2
	python3 tests/dist/run.py dist

## Random statements against each other and DuckDB, for longer than `make test` does (tests/differential/README.md).
FUZZ_SECONDS ?= 600
test-fuzz: build
	python3 tests/clients/run.py --server $(BIN)/dipper pymysql
	$(TESTS)/python/venv/bin/python tests/differential/run.py $(BIN)/dipper --seconds $(FUZZ_SECONDS) $(ARGS)

## Every function at n, 2n and 4n rows: what takes longer than its work. Some ten minutes.
test-growth: build
	python3 tests/limits/growth.py $(BIN)/dipper $(ARGS)

## Every function with the ends of each type, over constants, columns and in conditions. Some minutes.
test-extremes: build
	python3 tests/limits/extremes.py $(BIN)/dipper $(ARGS)

## Catalogs over a real Hive metastore, and Iceberg tables of every kind; takes minutes (Java and jars from Maven, ~300 MB).
test-hive: build gateway
	python3 tests/hive/run.py $(BIN)/dipper

## Programs of Doris's and StarRocks' users: SQLAlchemy's dialects, Superset, dbt, JDBC, Flink, Spark (tests/tools/README.md); ARGS names some.
test-tools: build
	python3 tests/tools/run.py --server $(BIN)/dipper $(ARGS)

# The S3 server that the tests of the store start. Nothing replaces it, so without Go there is no `make test`.
gateway:
	@command -v go >/dev/null || tests/support/install.sh golang-go >/dev/null
	@test -x $(HOME)/.cache/dipper/bin/versitygw || \
	  GOBIN=$(HOME)/.cache/dipper/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# DuckDB with its extension for TPC-DS, which is of another version than the one that answers are compared with elsewhere.
$(TESTS)/tpcds/installed: tests/tpcds/requirements.txt
	python3 -m venv $(TESTS)/tpcds
	$(TESTS)/tpcds/bin/pip install -q -r $<
	touch $@

## Lints and documentation with warnings denied, also of the fuzz targets. Cargo checks all dependencies once more for that:
## some ten minutes of CPU time the first time.
lint:
	cargo fmt --all --check
	CUSTOM_LIBFUZZER_PATH=$(CURDIR)/fuzz/Cargo.toml cargo clippy --release --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links -A rustdoc::bare_urls" cargo doc --release --workspace --exclude dipper-fuzz --no-deps --document-private-items

## Measures dipper beside DuckDB, Polars, ClickHouse, MariaDB and Redis on 2 cores (benchmarks/README.md): all steps, or those in STEPS.
STEPS ?= run load compare scan point
bench:
	cargo build --release -p dipper-cli -p dipper-benchmarks
	python3 benchmarks/test_compare.py
	@status=0; for step in $(STEPS); do \
	  case $$step in point) script=point/run.py;; *) script=$$step.py;; esac; \
	  python3 benchmarks/$$script --dipper $(BIN)/dipper --gen $(BIN)/dipper-gen $(ARGS) || status=1; \
	done; exit $$status
