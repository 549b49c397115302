#!/bin/bash
# report_picture.sh LOCKSTEP PICTURE.png: the README's picture: a part of the report of a real run, as Chromium shows it.
set -eu
lockstep=$(realpath "$1") picture=$(realpath "$2")
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$lockstep" compare --model llama-3.1-8b --device l40s --policies naive,continuous,chunked --record steps --db "$tmp/p.db" --quiet \
	traces/samples/azure_conv_sample.csv
"$lockstep" report 1-3 --db "$tmp/p.db" -o "$tmp/all.html" --quiet
# Four of its charts; the rest is left out of sight.
style='nav, footer, .theme, .choice, section, #latency figure:nth-child(n + 3), #steps figure:nth-child(n + 3), h2, details, .tools { display: none !important; }
section#latency, section#steps { display: block !important; margin: 0 0 1rem; } header { padding-top: .6rem !important; } .about { margin-bottom: .8rem; } body { overflow: hidden; }'
awk -v style="$style" '{ print } /<\/style>/ && !done { print "<style>" style "</style>"; done = 1 }' "$tmp/all.html" >"$tmp/page.html"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$tmp/profile" \
	--window-size=1120,915 --virtual-time-budget=10000 --screenshot="$picture" "file://$tmp/page.html" >"$tmp/log" 2>&1
ls -l "$picture"
