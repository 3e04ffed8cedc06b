#!/usr/bin/env bash
# Runs every fuzz target, or those named, for a bounded time on the stable toolchain:
#
#   fuzz/run.sh SECONDS [TARGET...]
#
# A target runs on each processor. It ends with an error at the first crash, hang or excess of memory; the input
# lies in fuzz/artifacts then.
# libFuzzer comes with the libfuzzer-sys crate and needs a C++ compiler. What cargo-fuzz asks of a nightly
# toolchain is the address sanitizer only; coverage is a pass of LLVM that stable rustc runs as well.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
if ! command -v c++ >/dev/null; then
    echo "fuzz: libFuzzer needs a C++ compiler: apt-get install g++" >&2
    exit 1
fi
# The address space that one input may make the process take, and the time that it may need.
rss_limit_mb=512
timeout=10

coverage=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
)
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target the flags do not reach build scripts. The edges of `std` are not counted, ours are.
RUSTFLAGS="${coverage[*]}" cargo build --quiet --release --target "$host"
programs=${CARGO_TARGET_DIR:-target}/$host/release

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for source in targets/*.rs; do
        targets+=("$(basename "$source" .rs)")
    done
fi
fuzz() { # TARGET
    local target=$1 log executions edges
    mkdir -p "corpus/$target" artifacts
    log=$(mktemp)
    # The first folder takes what is found; the second holds the inputs to begin with and is only read.
    if ! "$programs/$target" -max_total_time="$seconds" -rss_limit_mb="$rss_limit_mb" -malloc_limit_mb="$rss_limit_mb" \
        -timeout="$timeout" -max_len=8192 -print_final_stats=1 -artifact_prefix="artifacts/$target-" \
        "corpus/$target" "seeds/$target" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "fuzz: $target failed; the input: $(ls -t artifacts/"$target"-* 2>/dev/null | head -n 1)" >&2
        rm -f "$log"
        return 1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf 'fuzz: %-12s %10s executions, %5s edges, %3s s\n' "$target" "$executions" "$edges" "$seconds"
    rm -f "$log"
}
export -f fuzz
export programs seconds rss_limit_mb timeout
# A target on each processor. xargs starts no further target behind the status 255.
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'fuzz "$1" || exit 255' fuzz '{}'
