#!/bin/sh
# Makes HTML of the book, in target/book. Installs the pinned mdbook once, in target/mdbook.
set -eu
cd "$(dirname "$0")/.."
version=0.5.4
if ! target/mdbook/bin/mdbook --version 2>/dev/null | grep -q "$version"; then
    # Without optimization: the book is small, and mdbook's build would be most of the time.
    CARGO_PROFILE_DEV_DEBUG=none cargo install mdbook --profile dev --version "$version" --locked --no-default-features --root target/mdbook
fi
target/mdbook/bin/mdbook build docs
echo "built target/book/index.html"
