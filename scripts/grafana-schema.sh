#!/bin/bash
# grafana-schema.sh: fetches Grafana's types of dashboards from the registry of npm and prints their folder.
#
# Nothing is installed or run. The package is pinned by version and SHA-512. The folder is target/grafana-schema.
# Exit status 77, with the reason, where the package cannot be had.
set -eu
version=13.2.3
sha512=ae4f0510eef2b857d14cafc90f7f7be3b499150fa209341ba66e8c8763a39ea1b1fe0fee410171e7ab7ae1e08b5d6132a11ebcaeee1c8a07062ab5e4fa8ceb2e
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$here/target/grafana-schema
cannot() { echo "grafana-schema: $*" >&2; exit 77; }

mkdir -p "$here/target"
exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/version" 2>/dev/null)" != $version ]; then
  command -v curl >/dev/null || cannot "curl is missing (apt-get install curl)"
  work=$folder.new
  rm -rf "$work" "$folder"
  mkdir -p "$work/node_modules/@grafana/schema"
  url=https://registry.npmjs.org/@grafana/schema/-/schema-$version.tgz
  curl -sSf --max-time 60 --retry 2 -o "$work/schema.tgz" $url 2>"$work/errors" ||
    cannot "the package cannot be fetched: $(tail -n 1 "$work/errors")"
  echo "$sha512  $work/schema.tgz" | sha512sum -c --quiet - >&2 || { echo "grafana-schema: $url is not what it was" >&2; exit 1; }
  tar -xzf "$work/schema.tgz" -C "$work/node_modules/@grafana/schema" --strip-components 1
  echo $version >"$work/version"
  mv "$work" "$folder"
fi
echo "$folder"
