#!/bin/bash
# test.sh — installs what the tests need (Debian 12, as root) and runs all of them; `cargo xtask ci --help` lists the steps.
set -eu
cd "$(dirname "$0")"
scripts/setup.sh test
# Everything is built once. That is minutes faster without the data for a second build, without debug information,
# and without link-time optimisation of the program.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
exec cargo xtask ci "$@"
