#!/bin/bash
# test.sh — installs what the tests need (Debian 12, as root) and runs all of them; `cargo xtask ci --help` lists the steps.
set -eu
cd "$(dirname "$0")"
scripts/setup.sh test
# The first build is the only one here, and it is faster without what a second one could use.
export CARGO_INCREMENTAL=0
exec cargo xtask ci "$@"
