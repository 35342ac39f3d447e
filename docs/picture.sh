#!/bin/sh
# Makes the picture on the front page: the timeline of a lock that releases by GET and DEL, light and dark. Needs chromium.
set -eu
cd "$(dirname "$0")/.."
cargo run --release --bin redouble-check -- --lock B03a --property P1 --report target/picture.html >/dev/null
# The counterexample alone, without what is there to click on.
hidden='header,.skip,#overview,#detail>nav,#detail>h2,#detail>p,#detail>section:not(#example),.tabs,.controls,.columns'
plain='body{margin:0;padding:0;max-width:none;background:var(--card)}section.card{border:0;border-radius:0;margin:0}'
for theme in light dark; do
    sed "s|</head>|<style>:root{color-scheme:$theme}$plain$hidden{display:none!important}</style></head>|" target/picture.html >"target/picture-$theme.html"
    scheme=1
    [ "$theme" = dark ] && scheme=0
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,410 --virtual-time-budget=3000 \
        --blink-settings=preferredColorScheme=$scheme \
        --screenshot="docs/src/images/timeline-$theme.png" "file://$PWD/target/picture-$theme.html#B03a/P1" 2>/dev/null
done
