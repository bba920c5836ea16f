#!/bin/sh
# A Postgres server for the tests that run the hub on a real one (tests/hub/test_hub_postgres.py).
#
#   sh tests/install-postgres.sh           where no server is there: installs Debian's, if this user may; ends with 0
#   sh tests/install-postgres.sh --check   ends with 0 if there is a server, with 1 if not
#
# The tests start a server of their own in a temporary folder; none is left running, and none that runs is touched.
set -u

found() {
    command -v initdb >/dev/null 2>&1 && command -v pg_ctl >/dev/null 2>&1 && return 0
    for folder in /usr/lib/postgresql/*/bin; do
        [ -x "$folder/initdb" ] && [ -x "$folder/pg_ctl" ] && return 0
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null 2>&1 || { why="there is no apt-get"; return 1; }
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { why="this user is not root and has no sudo without password"; return 1; }
}

found && exit 0
[ "${1:-}" = --check ] && exit 1

why=""
if may_install; then
    echo "NO POSTGRES FOR THE HUB'S TESTS: installing Debian's postgresql with apt-get (about 60 MB on disk)" >&2
    as_root apt-get update -qq >&2
    as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 postgresql >&2
    if found; then
        echo "postgresql is installed" >&2
        exit 0
    fi
    why="apt-get could not install postgresql"
fi
echo "WARNING: THE HUB WILL NOT BE TESTED ON POSTGRES: $why" >&2
