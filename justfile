# The commands of a contributor. `just` alone lists them.

model := "cargo test --locked --profile models -p tenure-model"
all := "--locked --workspace --exclude tenure-model --exclude tenure-slatedb --all-features"

# List the recipes
default:
    @just --list

# Run all checks that must pass before a change lands
ci:
    .ci/run

# Run the tests with all stores
test *ARGS:
    cargo test {{all}} {{ARGS}}

# Lint
lint:
    cargo fmt --all -- --check
    cargo clippy --locked --workspace --exclude tenure-slatedb --all-targets --all-features -- -D warnings

# Explore all states of the models
models *ARGS:
    {{model}} --test model --test across_model --test log_model --test group_model {{ARGS}}

# Simulate seeds, such as 2000 or 100..200
simulate SEEDS:
    SEEDS={{SEEDS}} {{model}} --test simulation --test group_simulation --test across_simulation the_invariants_hold -- --nocapture

# Kill processes at random for this number of seconds; the seed determines the faults
chaos SECONDS SEED:
    CHAOS_SECONDS={{SECONDS}} CHAOS_SEED={{SEED}} cargo test {{all}} --test chaos -- --nocapture

# Find mutants of the changes since BASE that no test catches
mutants BASE="main":
    git diff {{BASE}} > target/mutants.diff
    cargo mutants --workspace --in-diff target/mutants.diff

# Check each feature alone, without the features of dev-dependencies
features:
    cargo hack check --no-dev-deps --each-feature --exclude-features default,cloud,object-store-tests \
        -p tenure -p tenure-fencing -p tenure-groups -p tenure-testkit -p tenure-cli

# Compare the public items with those of a commit; needs cargo-semver-checks
semver COMMIT:
    cargo semver-checks --baseline-rev {{COMMIT}}

# Write the page of the command from its help
command-page:
    cargo build --locked -p tenure-cli
    scripts/docs/command-page.py

# Run the long checks, which take some hours
nightly:
    SEEDS=5000 {{model}} -- --nocapture
    {{model}} --test across_model -- --ignored --nocapture
    just chaos 600 $RANDOM
    just features
    just mutants HEAD~20
    cargo bench --bench side_by_side
    scripts/servers/ministack.sh -- cargo test -p tenure-slatedb -- --ignored
    scripts/servers/ceph.sh -- cargo test {{all}} --test stores s3_server_of_the_environment -- --ignored
    scripts/servers/faketime.sh -- cargo test {{all}} --test chaos stepped -- --ignored --nocapture
    scripts/ci/schemathesis.sh
    scripts/ci/completions.sh
    scripts/ci/deploy.sh
    scripts/ci/observability.sh
    scripts/release/static-binary.sh
    scripts/release/debian-package.sh
    cargo publish --workspace --dry-run --locked
    scripts/release/install.sh
