#!/bin/sh
# Loads a CSV file with a header into a table by a Stream Load: starts a server on free ports, loads, stops the server.
#     stream_load.sh DATABASE TABLE FILE
# DIPPER_DATA is the directory of the database, DIPPER the program; `dipper sql --data DIR` sets both for its \! commands.
set -eu
: "${DIPPER_DATA:?is the directory of the database: run dipper sql with --data DIR}"
dipper=${DIPPER:-dipper}
log=$(mktemp)
"$dipper" server --data "$DIPPER_DATA" --mysql-port 0 --http-port 0 >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -f "$log"' EXIT

waited=0
until grep -q 'dipper is ready' "$log"; do
  waited=$((waited + 1))
  if test "$waited" -gt 300 || ! kill -0 "$server" 2>/dev/null; then cat "$log" >&2; exit 1; fi
  sleep 0.1
done
address=$(sed -n 's/^dipper serves HTTP on //p' "$log")

# Without curl `dipper load` sends the same request.
if command -v curl >/dev/null; then
  curl -sS -u root: -H "label: tour-$$" -H 'format: csv_with_names' -H 'column_separator: ,' -H 'enclose: "' \
    -H 'empty_field_as_null: true' -T "$3" "http://$address/api/$1/$2/_stream_load" |
    grep -E '"(Status|Message|NumberLoadedRows|NumberFilteredRows)"'
else
  "$dipper" load "$3" --table "$1.$2" --server "http://$address" --file-format csv_with_names \
    --column-separator , -H 'enclose: "' -H 'empty_field_as_null: true'
fi
