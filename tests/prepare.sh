#!/bin/sh
# Install the Debian packages that tests need; with arguments only those. Root on Debian: installs what is
# missing. Anybody else: says in one line which kinds of tests will be skipped, and why.
set -eu

wanted=${*:-slurmctld slurmd slurmdbd slurm-client munge mariadb-server gcc libc6-dev util-linux systemd dbus fuse3 \
    mmdebstrap debian-archive-keyring shellcheck strace faketime iproute2 openssl prometheus victoria-metrics \
    chromium zsh fish groff}

missing=''
for package in $wanted; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = 'install ok installed' ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Skipped are the kinds of tests that need$missing: only root on Debian can install them here." >&2
    exit 0
fi

# Packages must not start their services: the tests start their own, on loopback, with their own prefix.
policy=/usr/sbin/policy-rc.d
made_policy=''
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    made_policy=1
fi
trap '[ -z "$made_policy" ] || rm -f "$policy"' EXIT

echo "installing from Debian:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
if ! apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null 2>&1; then
    apt-get -qq update
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null
fi
