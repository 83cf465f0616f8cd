#!/bin/sh
# Installs Debian packages for tests and benchmarks: install.sh PACKAGE...
# Where that cannot be done (no apt, not root) nothing is: what needs the packages says what is missing.
set -e
command -v apt-get >/dev/null && test "$(id -u)" = 0 || exit 0
export DEBIAN_FRONTEND=noninteractive
# An installation that was killed leaves packages half configured, and apt refuses all others until they are done.
dpkg --configure -a || true
apt-get update -q
apt-get install -y -q -o DPkg::Lock::Timeout=600 "$@"
