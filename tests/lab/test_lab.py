from __future__ import annotations

import errno
import re
import socket
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.lab.process import LabError, wait_until
from tests.lab.seed import SUDO_PASSWORD, SUDO_USER

if TYPE_CHECKING:
    from tests.lab.fixtures import LabFactory
    from tests.lab.host import Host
    from tests.lab.hosts import Lab

COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "cmake", "make", "ninja", "ccache", "ld", "as")
OUTSIDE = ("192.0.2.1", 80)  # TEST-NET-1, RFC 5737


@pytest.fixture(scope="module")
def hosts(lab: LabFactory) -> Lab:
    return lab("atlas", "pascal", "bench")


@pytest.fixture
def host(hosts: Lab) -> Host:
    return hosts["atlas"]


def ssh(host: Host, command: str, *, user: str = "root", text: str = "") -> subprocess.CompletedProcess[str]:
    options = f"""
        -F/dev/null -i{host.identity} -oUserKnownHostsFile={host.known_hosts} -oStrictHostKeyChecking=yes
        -oIdentitiesOnly=yes -oBatchMode=yes -oConnectTimeout=2
    """
    argv = ["ssh", *options.split(), f"{user}@{host.address}", command]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=30)


def test_hosts_run_systemd_and_answer_over_ssh(hosts: Lab) -> None:
    for host in hosts:
        assert ssh(host, "systemctl is-system-running && hostname").stdout == f"running\n{host.name}\n"


def test_each_host_has_its_own_machine_id(hosts: Lab) -> None:
    assert len({host.exec(["cat", "/etc/machine-id"]).stdout for host in hosts}) == len(hosts)


def test_a_python_that_runs_the_agent_is_there(host: Host) -> None:
    done = ssh(host, "python3 -c 'import sys; print(sys.version_info >= (3, 10))'")
    assert done.stdout == "True\n"


def test_no_compiler_is_there_but_the_openmp_runtime_is(host: Host) -> None:
    assert ssh(host, f"command -v {' '.join(COMPILERS)}").stdout == ""
    assert ssh(host, "ldconfig -p | grep -c libgomp.so.1").stdout == "1\n"


def test_hosts_on_the_machine_s_own_files_see_its_compilers_and_not_its_data(lab: LabFactory) -> None:
    host = lab("builder", lower="/")["builder"]
    assert ssh(host, "command -v g++ cmake ninja").stdout.count("\n") == 3
    assert ssh(host, "ls -A /root").stdout == ".ssh\n"
    assert ssh(host, "ls -A /opt /usr/local/bin").stdout.split() == ["/opt:", "/usr/local/bin:"]


def test_hosts_know_each_other_by_name(hosts: Lab) -> None:
    for other in hosts:
        assert ssh(hosts["bench"], f"getent hosts {other.name}").stdout.split() == [other.address, other.name]
    assert ssh(hosts["bench"], "ping -c1 -W2 pascal").returncode == 0


def test_services_start_log_and_restart(host: Host) -> None:
    script = "echo was-here; exec sleep 600"
    host.exec(["systemd-run", "--unit=probe", "--property=Restart=always", "sh", "-c", script])
    main = host.exec(["systemctl", "show", "--value", "--property=MainPID", "probe"]).stdout.strip()
    host.exec(["kill", "-KILL", main])

    def restarted() -> bool:
        return host.exec(["journalctl", "--unit=probe", "--output=cat"]).stdout.count("was-here\n") == 2

    wait_until(restarted, "the service ran twice", seconds=20)
    host.exec(["systemctl", "stop", "probe"])


def test_a_user_becomes_root_with_a_password(host: Host) -> None:
    done = ssh(host, "id -un; sudo -S -k -p '' -- id -u", user=SUDO_USER, text=f"{SUDO_PASSWORD}\n")
    assert done.stdout == f"{SUDO_USER}\n0\n"
    assert ssh(host, "sudo -S -k -p '' -- id -u", user=SUDO_USER, text="wrong\n").returncode == 1


def test_many_connections_at_once_are_all_answered(host: Host) -> None:
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection((host.address, 22), timeout=10)) for _ in range(40)
        ]
        assert [connection.recv(4) for connection in connections] == [b"SSH-"] * 40


def test_two_labs_at_once_do_not_meet(lab: LabFactory, host: Host) -> None:
    twin = lab("atlas")["atlas"]
    assert twin.address != host.address
    assert ssh(twin, "getent hosts pascal").stdout == ""
    twin.exec(["touch", "/root/only-here"])
    assert host.exec(["test", "-e", "/root/only-here"], check=False).returncode == 1


def test_no_packet_leaves(host: Host) -> None:
    with pytest.raises(OSError, match="unreachable") as caught:
        socket.create_connection(OUTSIDE, timeout=5)
    assert caught.value.errno == errno.ENETUNREACH
    assert "Network is unreachable" in ssh(host, f"ping -c1 {OUTSIDE[0]} 2>&1").stdout


def test_a_power_cut_ends_everything_and_keeps_what_was_synced(host: Host) -> None:
    before = host.exec(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    host.exec(["sh", "-c", "echo kept >/root/kept; touch /tmp/in-memory"])
    host.kill()
    assert not host.up
    with pytest.raises(LabError, match="atlas is down"):
        host.exec(["true"])
    assert ssh(host, "true").returncode == 255
    host.start()
    assert ssh(host, "cat /root/kept; ls /tmp/in-memory").stdout == "kept\n"
    assert host.exec(["cat", "/proc/sys/kernel/random/boot_id"]).stdout != before


def test_nobody_hears_of_a_power_loss_until_the_host_is_back(host: Host) -> None:
    """As with a real machine: its address is silent, and then it knows nothing of earlier connections."""
    card = host.exec(["cat", "/sys/class/net/eth0/address"]).stdout
    with socket.create_connection((host.address, 22), timeout=10) as connection:
        connection.recv(4096)
        host.lose_power()
        assert not host.up
        connection.settimeout(1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.start()
        connection.sendall(b"SSH-2.0-left\r\n")
        connection.settimeout(30)
        with pytest.raises(ConnectionResetError):
            connection.recv(4096)
    assert host.exec(["cat", "/sys/class/net/eth0/address"]).stdout == card


def test_a_clean_stop_lets_services_finish(host: Host) -> None:
    stop = "ExecStop=/bin/touch /root/finished"
    host.exec(["systemd-run", "--unit=slow", f"--property={stop}", "sleep", "600"])
    host.stop()
    assert not host.up
    host.start()
    assert ssh(host, "ls /root/finished").returncode == 0


def test_a_reboot_comes_back_with_new_firewall_and_same_disk(host: Host) -> None:
    before = host.exec(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    host.exec(["nft", "add table inet lost_at_reboot"])
    host.exec(["systemctl", "reboot"])

    def rebooted() -> bool:
        if not (host.up and host.answers()):
            return False
        return host.exec(["cat", "/proc/sys/kernel/random/boot_id"], check=False).stdout not in {"", before}

    wait_until(rebooted, "another boot id", seconds=30)
    host.wait_ready()
    assert "lost_at_reboot" not in host.exec(["nft", "list", "tables"]).stdout


def test_a_frozen_host_accepts_connections_and_says_nothing(host: Host) -> None:
    host.freeze()
    try:
        with socket.create_connection((host.address, 22), timeout=2) as connection:
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        assert ssh(host, "true").returncode == 255
    finally:
        host.thaw()
    assert ssh(host, "true").returncode == 0


def test_a_cut_host_swallows_packets_both_ways_until_healed(hosts: Lab, host: Host) -> None:
    host.cut()
    try:
        assert "timed out" in ssh(host, "true").stderr
        assert host.exec(["ping", "-c1", "-W1", "pascal"], check=False).returncode == 1
        assert ssh(hosts["pascal"], "true").returncode == 0
    finally:
        host.heal()
    assert ssh(host, "true").returncode == 0


def test_an_unplugged_host_sees_no_carrier(host: Host) -> None:
    host.unplug()
    try:
        assert "NO-CARRIER" in host.exec(["ip", "link", "show", "eth0"]).stdout
    finally:
        host.plug()
    wait_until(lambda: "LOWER_UP" in host.exec(["ip", "link", "show", "eth0"]).stdout, "carrier", seconds=5)
    assert ssh(host, "true").returncode == 0


def test_packets_get_lost(host: Host) -> None:
    host.loss(50)
    try:
        report = host.exec(["ping", "-c40", "-i0.01", "-W1", "pascal"], check=False).stdout
    finally:
        host.heal()
    lost = re.search(r"([\d.]+)% packet loss", report)
    assert lost
    assert 20 < float(lost[1]) <= 100


def test_a_slow_cable_is_slow(host: Host) -> None:
    host.rate("10mbit")
    try:
        start = time.monotonic()
        assert len(ssh(host, "head -c 1500000 /dev/zero").stdout) == 1_500_000
        assert time.monotonic() - start > 1.0
    finally:
        host.heal()
    start = time.monotonic()
    assert len(ssh(host, "head -c 1500000 /dev/zero").stdout) == 1_500_000
    assert time.monotonic() - start < 1.0


def test_a_long_cable_delays(host: Host) -> None:
    host.delay(50)
    try:
        assert round_trip(host) > 100
        assert ssh(host, "true").returncode == 0
    finally:
        host.heal()
    assert round_trip(host) < 50


def round_trip(host: Host) -> float:
    """Return the shortest of three, in milliseconds."""
    report = host.exec(["ping", "-c3", "-i0.2", "-W2", "pascal"]).stdout
    found = re.search(r"= ([\d.]+)/", report)
    assert found
    return float(found[1])


def test_a_small_disk_fills_up(lab: LabFactory) -> None:
    host = lab("tiny", disk="64m")["tiny"]
    done = ssh(host, "dd if=/dev/zero of=/root/large bs=1M count=100")
    assert "No space left on device" in done.stderr


def test_names_must_be_unique(lab: LabFactory) -> None:
    with pytest.raises(LabError, match="not unique: twice, twice"):
        lab("twice", "twice")
