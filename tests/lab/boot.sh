#!/bin/bash
# Boot one host: overlay its disk over the lower layer and run systemd in it, until it powers off or is killed.
# Environment: NAME, NAMESPACE (its network), DIRECTORY, LOWER, GROUP (its cgroup directory).
set -euo pipefail

if [ "${1:-}" != inside ]; then
    # Without a cgroup of its own, hosts share one payload group and break each other.
    echo $$ >"$GROUP/cgroup.procs"
    # The network is entered before nspawn starts: with --network-namespace-path the host would see the
    # outer interfaces in /sys/class/net and lack CAP_NET_ADMIN (no nft, no tc).
    exec nsenter --net="/run/netns/$NAMESPACE" unshare --mount --propagation private bash "$0" inside
fi

mount -t overlay -o "lowerdir=$LOWER,upperdir=$DIRECTORY/disk/upper,workdir=$DIRECTORY/disk/work" "$NAME" "$DIRECTORY/root"
# nspawn refuses to keep its state in /run where that lies on a disk.
mount -t tmpfs -o mode=755 nspawn /run/systemd
# nspawn and the host then see a pure cgroup v2 machine, whatever this one has.
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The host may set net.* sysctls, no others.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_API_VFS_WRITABLE=network

while :; do
    nft flush ruleset 2>/dev/null || true # the network outlives a reboot; a real host's rules would not
    status=0
    # pidfd_getfd: a real machine lets root have the descriptors of its processes
    systemd-nspawn --quiet --boot --register=no --keep-unit --machine="$NAME" --hostname="$NAME" \
        --directory="$DIRECTORY/root" --capability=CAP_NET_ADMIN --system-call-filter=pidfd_getfd \
        --console=pipe --resolv-conf=off --timezone=off --link-journal=no || status=$?
    [ "$status" = 133 ] || exit "$status" # 133: the host asked for a reboot
done
