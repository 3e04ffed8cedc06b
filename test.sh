#!/bin/bash
# test.sh — installs what the tests need (Debian 12, as root) and runs all of them; `cargo xtask ci --help` lists the steps.
set -eu
cd "$(dirname "$0")"
scripts/setup.sh test
exec cargo xtask ci "$@"
