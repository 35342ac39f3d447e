#!/bin/sh
# Makes the picture on the front page: the timeline of a lock that releases by GET and DEL, light and dark. Needs chromium.
set -eu
cd "$(dirname "$0")/.."
cargo run --release --bin redouble-check -- --lock B03a --property P1 --report target/picture.html >/dev/null
for theme in light dark; do
    # The timeline alone: what stands above it is moved out of the window.
    sed "s|</head>|<style>:root{color-scheme:$theme}body{margin-top:-268px}</style></head>|" target/picture.html >"target/picture-$theme.html"
    scheme=1
    [ "$theme" = dark ] && scheme=0
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,425 --virtual-time-budget=3000 \
        --blink-settings=preferredColorScheme=$scheme \
        --screenshot="docs/src/images/timeline-$theme.png" "file://$PWD/target/picture-$theme.html#B03a/P1" 2>/dev/null
done
