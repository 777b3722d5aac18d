#!/bin/sh
# A backend of mdBook. Pages link to some files outside docs/. Copies these files to the folder
# above the pages. mdBook changes `.md` at the end of a link to `.html`, so such a file also gets a
# plain page.
set -eu
cat >/dev/null # the book, as JSON
cd "$(dirname "$0")/../.."
for path in bindings/python/README.md cli/openapi.json deploy examples fuzz/README.md \
    scripts/ci/if-match-node.py src/protocol/across/rules.md; do
    rm -rf "target/book/$path"
    mkdir -p "$(dirname "target/book/$path")"
    cp -R "$path" "target/book/$path"
done
for page in bindings/python/README deploy/README fuzz/README src/protocol/across/rules; do
    { echo '<meta charset="utf-8"><pre>'; sed 's/&/\&amp;/g; s/</\&lt;/g' $page.md; } \
        >target/book/$page.html
done
