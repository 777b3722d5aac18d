#!/usr/bin/env bash
# Builds the wheel and the source distribution of the Python package. Installs the wheel in an empty
# folder, leads there, and runs the tests, doctests and type checks of the package. With moto, a node
# of the If-Match post and the package also take turns on one lock.
#
#   scripts/ci/python.sh [PROFILE [PYTEST_ARGUMENT...]]
#   scripts/servers/moto.sh -- scripts/ci/python.sh
#
# TENURE=FILE is the command, for the test with candidates in Rust and in Python.
#
# PROFILE is the profile of Cargo: `dev` (the default) or `dist`. The wheel of `dist` is in
# target/wheels and has at most 15 MiB. With scripts/servers/moto.sh, the tests also use S3.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"
need cargo python3
profile=${1:-dev}
if [[ -n ${TENURE:-} ]]; then
    TENURE=$(realpath "$TENURE")
    export TENURE
fi
package=$root/bindings/python
wheels=${CARGO_TARGET_DIR:-$root/target}/wheels
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT

install maturin maturin==1.16.0
rm -rf "$wheels"
cd "$package"
"$venv/bin/maturin" build --locked --profile "$profile" --out "$wheels"
"$venv/bin/maturin" sdist --out "$wheels"
wheel=$(echo "$wheels"/tenure-*.whl)
size=$(wc -c <"$wheel")
echo "wheel: $(basename "$wheel"), $((size / 1024)) KiB"
if [[ $profile == dist ]] && ((size > 15 * 1024 * 1024)); then
    die "the wheel has more than 15 MiB"
fi
# The source distribution has all files that a build needs. Cargo compiles only the changed files.
tar -xf "$wheels"/tenure-*.tar.gz -C "$empty"
cd "$empty"/tenure-*/
CARGO_TARGET_DIR=${wheels%/wheels} "$venv/bin/maturin" build --offline --profile "$profile" \
    --out "$empty/from-source"

cd "$empty"
python3 -m venv fresh
fresh/bin/pip install --quiet --disable-pip-version-check --no-index "$wheel"
fresh/bin/python - <<'EOF'
import tenure
with tenure.Election("./orders", name="fresh").campaign() as leadership:
    print("leads with token", leadership.check())
EOF
"$uv" pip install --quiet --python fresh/bin/python pytest==9.2.0 pytest-asyncio==1.5.0 mypy==2.4.1
PYTHONDONTWRITEBYTECODE=1 fresh/bin/python -P -m pytest -q -p no:cacheprovider \
    -c "$package/pyproject.toml" "$package/tests" "${@:2}"
fresh/bin/mypy --config-file "$package/pyproject.toml" --cache-dir=.mypy -p tenure
cd "$package" && "$empty/fresh/bin/mypy" --cache-dir="$empty/.mypy" tests examples/[ns]*.py
if command -v npm >/dev/null; then
    install_npm pyright pyright@1.1.405
    "$folder/node_modules/.bin/pyright" --pythonpath "$empty/fresh/bin/python"
fi
# The SDK for Python is in the environment of moto.
if [[ -n ${TENURE_TEST_S3_BUCKET:-} && -x $servers/moto/bin/python ]]; then
    site=$("$empty/fresh/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    TENURE='' PYTHONPATH=$site "$servers/moto/bin/python" "$root/scripts/ci/if-match-node.py"
fi
