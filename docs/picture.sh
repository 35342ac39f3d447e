#!/bin/sh
# Makes the picture on the front page: the timeline of a lock that releases by GET and DEL, light and dark. Needs chromium.
set -eu
cd "$(dirname "$0")/.."
# A release after a pause is the known lock bug `get-then-del`: exit code 1.
cargo run --release --bin redouble-check -- replay docs/figures/get-then-del.json --report target/picture.html >/dev/null || [ $? = 1 ]
# The counterexample alone, without the controls of the page.
hidden='header,.skip,#overview,#detail>nav,#detail>h2,#detail>p,#detail>section:not(#example),.tabs,.controls,.columns,svg .future,svg .cursor'
plain='body{margin:0;padding:0;max-width:none;background:var(--card)}section.card{border:0;border-radius:0;margin:0}'
for theme in light dark; do
    sed "s|</head>|<style>:root{color-scheme:$theme}$plain$hidden{display:none!important}</style></head>|" target/picture.html >"target/picture-$theme.html"
    scheme=1
    [ "$theme" = dark ] && scheme=0
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,500 --virtual-time-budget=3000 \
        --blink-settings=preferredColorScheme=$scheme \
        --screenshot="docs/src/images/timeline-$theme.png" "file://$PWD/target/picture-$theme.html#B03a/P1" 2>/dev/null
done
