#!/bin/sh
# Install the system packages that the host lab and the builds in it need. Debian and Ubuntu, as root.
# Quick when nothing is missing; safe to run again. No service is started on this machine.
#
#   tests/lab/setup.sh
#
# Without root, or on a machine without apt, it says so and exits 0 (1 with CI=true or HETCTL_REQUIRE_LAB=1).
set -eu

PACKAGES="systemd-container systemd-sysv dbus libpam-systemd openssh-server openssh-client sudo nftables iproute2
    iputils-ping ethtool procps util-linux ca-certificates curl python3 python3-venv
    g++ cmake ninja-build make ccache libgomp1 git"

refuse() {
    echo "setup.sh: $1: lab tests need this" >&2
    if [ "${CI:-}" = true ] || [ "${HETCTL_REQUIRE_LAB:-}" = 1 ]; then exit 1; fi
    exit 0
}

missing() {
    for package in $PACKAGES; do
        state=$(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null || true)
        [ "$state" = "install ok installed" ] || printf ' %s' "$package"
    done
}

command -v apt-get >/dev/null || refuse "no apt on this machine"
wanted=$(missing)
[ -n "$wanted" ] || exit 0
[ "$(id -u)" = 0 ] || refuse "not root, and packages are missing:$wanted"

# apt starts what it installs, and sshd would listen on every address of this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
apt() {
    apt-get -qq -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null || {
        cat "$log" >&2
        return 1
    }
}
echo "setup.sh: installing$wanted" >&2
apt update
# shellcheck disable=SC2086 # a list of package names
apt install --yes --no-install-recommends $wanted
rm -f "$log"

# A packaged service that came up all the same would listen to the world.
if [ -d /run/systemd/system ]; then systemctl disable --now --quiet ssh.service ssh.socket 2>/dev/null || true; fi
