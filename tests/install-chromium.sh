#!/bin/sh
# Chromium for the tests that look at the report in a real browser (tests/reporting/test_browser.py).
#
#   sh tests/install-chromium.sh           where no browser is there: installs Debian's, if this user may; ends with 0
#   sh tests/install-chromium.sh --check   ends with 0 if there is a browser, with 1 if not
#
# SMELT_BROWSER names a binary; then nothing is installed.
set -u

found() {
    for name in ${SMELT_BROWSER:-chromium chromium-browser google-chrome google-chrome-stable chrome}; do
        command -v "$name" >/dev/null 2>&1 && return 0
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

why="SMELT_BROWSER is '${SMELT_BROWSER:-}', which is not there"
if [ -z "${SMELT_BROWSER:-}" ] && may_install; then
    echo "NO BROWSER FOR THE REPORT'S TESTS: installing Debian's chromium with apt-get (about 350 MB on disk)" >&2
    as_root apt-get update -qq >&2
    as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 chromium >&2
    if found; then
        echo "chromium is installed" >&2
        exit 0
    fi
    why="apt-get could not install chromium"
fi
echo "WARNING: THE REPORT WILL NOT BE CHECKED IN A BROWSER: $why" >&2
