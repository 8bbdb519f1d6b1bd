"""Whatever happened to a node in between is found, named and mended; what is not ours is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.conftest import KEY, WorkplaceFactory
from tests.end_to_end.workplace import Workplace, answer, chat_manifest
from tests.lab.fixtures import LabFactory
from tests.lab.host import Host
from tests.lab.hosts import Lab
from tests.lab.process import wait_until
from tests.lab.snapshot import difference, snapshot

SERVER = "hetctl:den:chat:server.service"
WORKER = "hetctl:den:chat:worker:pool.service"
FIREWALL = "hetctl:den:chat:firewall.service"
MARKS = "/var/lib/hetctl/clusters/den/marks"


@dataclass(frozen=True)
class Damage:
    """Something that happens to a node.

    Arguments:
        host: Where.
        shell: What happens, as a shell script.
        told: What diff says about it.
    """

    host: str
    shell: str
    told: str


DAMAGE = {
    "a unit was edited": Damage(
        "left", f"echo '# mine' >> '/etc/systemd/system/{WORKER}'; systemctl daemon-reload", "was changed"
    ),
    "a unit was edited and not reloaded": Damage(
        "head", f"sed -i s/8080/8081/ '/etc/systemd/system/{SERVER}'", "was changed"
    ),
    "a unit was removed": Damage(
        "left", f"rm '/etc/systemd/system/{WORKER}'; systemctl daemon-reload", "is missing"
    ),
    "a unit was replaced by a mask": Damage(
        "left", f"ln -sf /dev/null '/etc/systemd/system/{WORKER}'; systemctl daemon-reload", "symlink"
    ),
    "a worker was stopped": Damage("left", f"systemctl stop '{WORKER}'", "is inactive"),
    "a server was stopped": Damage("head", f"systemctl stop '{SERVER}'", "is inactive"),
    "a worker was disabled": Damage("left", f"systemctl disable '{WORKER}'", "is disabled"),
    "a library was replaced": Damage(
        "left",
        "f=$(ls /var/lib/hetctl/builds/*/libllama-common.so.0.*); cp $f $f.x; echo x >> $f.x; mv $f.x $f",
        "different",
    ),
    "a binary was removed": Damage("head", "rm /var/lib/hetctl/builds/*/llama-server", "missing"),
    "a file was added to a build": Damage("left", "cd /var/lib/hetctl/builds/* && touch rpc-server", "extra"),
    "the model was cut off": Damage(
        "head", "truncate --size=1M /var/lib/hetctl/models/den/gemma-*/*.gguf", "was changed"
    ),
    "the packet filter was flushed": Damage("left", "nft flush ruleset", "is missing"),
    "a rule was added to our table": Damage(
        "left",
        "nft insert rule inet $(nft list tables | awk '/hetctl/{print $3}') input accept",
        "was changed",
    ),
    "the packet filter's unit was stopped": Damage("left", f"systemctl stop '{FIREWALL}'", "is inactive"),
    "the secret was changed on the node": Damage(
        "head", "echo other > /var/lib/hetctl/clusters/den/secrets/chat.api-keys", "was changed"
    ),
    "a secret was made readable": Damage(
        "head", "chmod 644 /var/lib/hetctl/clusters/den/secrets/chat.api-keys", "permissions"
    ),
    "a mark was deleted": Damage("left", f"rm {MARKS}/worker*", "not there yet"),
    "a mark was damaged": Damage("head", f"sed -i s/8080/8081/ {MARKS}/server*", "mark"),
    "a mark was cut off": Damage("left", f"truncate --size=100 {MARKS}/build*", "mark"),
    "the member record was removed": Damage("left", "rm /var/lib/hetctl/clusters/den/members.json", "record"),
}


@dataclass(frozen=True)
class Cluster:
    """`chat` with its head on one host and a worker on another."""

    lab: Lab
    workplace: Workplace


@pytest.fixture(scope="module")
def cluster(
    lab: LabFactory, workplace_beside: WorkplaceFactory, llama_source: Path, small_model: Path
) -> Cluster:
    hosts = lab("head", "left")
    workplace = workplace_beside(hosts)
    workplace.write(
        chat_manifest(
            name="den",
            head="head",
            workers=["left"],
            addresses={host.name: host.address for host in hosts},
            source=llama_source,
            model=small_model,
        )
    )
    workplace.apply()
    return Cluster(hosts, workplace)


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found_named_and_mended(cluster: Cluster, what: str) -> None:
    damage = DAMAGE[what]
    cluster.lab[damage.host].exec(["sh", "-c", damage.shell])
    found = cluster.workplace.expect(2, "diff")
    assert damage.told in found.stdout
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")
    assert "blue" in answer(cluster.lab["head"].address, KEY).lower()


@pytest.mark.parametrize("action", ["restart", "reload"])
def test_the_filter_comes_back_with_the_node_s_own_and_nothing_restarts(
    cluster: Cluster, action: str
) -> None:
    left, head = cluster.lab["left"], cluster.lab["head"]
    running = [_invocation(head, SERVER), _invocation(left, WORKER)]
    left.exec(["systemctl", "start", "nftables"])
    left.exec(["systemctl", action, "nftables"])
    wait_until(lambda: "hetctl" in left.exec(["nft", "list", "tables"]).stdout, "the table is back")
    cluster.workplace.expect(0, "diff")
    assert running == [_invocation(head, SERVER), _invocation(left, WORKER)]


def _invocation(host: Host, unit: str) -> str:
    return host.exec(["systemctl", "show", "--property=InvocationID", "--value", unit]).stdout


def test_status_says_that_a_port_is_open(cluster: Cluster) -> None:
    cluster.lab["left"].exec(["nft", "flush", "ruleset"])
    told = cluster.workplace.expect(10, "status").stdout
    assert "firewall/chat@left" in told
    assert "20052 open to everybody" in told
    cluster.workplace.apply()
    cluster.workplace.expect(0, "status")


def test_a_worker_does_not_start_without_its_filter(cluster: Cluster) -> None:
    left = cluster.lab["left"]
    left.exec(["nft", "flush", "ruleset"])
    assert left.exec(["systemctl", "restart", WORKER], check=False).returncode != 0
    cluster.workplace.apply()
    cluster.workplace.expect(0, "diff")


def test_a_stranger_on_a_declared_port_is_named_and_left_alone(cluster: Cluster) -> None:
    left = cluster.lab["left"]
    left.exec(["systemctl", "stop", WORKER])
    listen = f"import socket, time; s = socket.create_server(('{left.address}', 20052)); time.sleep(900)"
    left.exec(["systemd-run", "--unit=mine", "python3", "-c", listen])
    left.exec(
        ["sh", "-c", "for i in $(seq 50); do ss -ltn | grep -q :20052 && exit; sleep 0.1; done; exit 1"]
    )
    outcome = cluster.workplace.expect(9, "diff")
    assert "systemctl disable --now mine.service" in outcome.stdout + outcome.stderr
    assert cluster.workplace.run("apply", "--yes").code != 0
    assert left.exec(["systemctl", "is-active", "mine"]).stdout.strip() == "active"
    left.exec(["systemctl", "stop", "mine"])
    cluster.workplace.apply()


def test_a_drop_in_is_named_with_the_command_and_left_alone(cluster: Cluster) -> None:
    left = cluster.lab["left"]
    folder = f"/etc/systemd/system/{WORKER}.d"
    left.exec(["sh", "-c", f"mkdir '{folder}'; printf '[Service]\\nNice=5\\n' > '{folder}/mine.conf'"])
    left.exec(["systemctl", "daemon-reload"])
    outcome = cluster.workplace.expect(9, "diff")
    assert "mine.conf" in outcome.stdout + outcome.stderr
    assert cluster.workplace.run("apply", "--yes").code != 0
    assert left.exec(["cat", f"{folder}/mine.conf"]).stdout == "[Service]\nNice=5\n"
    left.exec(["rm", "-r", folder])
    left.exec(["systemctl", "daemon-reload"])
    cluster.workplace.apply()


def test_a_changed_secret_is_seen_and_not_shown(cluster: Cluster) -> None:
    changed = {"CHAT_KEY": "sk-other-key"}
    found = cluster.workplace.run("diff", environment=changed)
    assert found.code == 2
    assert "api-keys changed" in found.stdout
    assert "sk-other-key" not in found.stdout + found.stderr
    assert cluster.workplace.run("apply", "--yes", environment=changed, seconds=300).code == 0
    assert "blue" in answer(cluster.lab["head"].address, "sk-other-key").lower()
    cluster.workplace.apply()
    assert "blue" in answer(cluster.lab["head"].address, KEY).lower()


def test_programs_of_that_name_in_the_path_are_nobody_s_worker(cluster: Cluster) -> None:
    left = cluster.lab["left"]
    names = [f"/usr/local/bin/{name}" for name in ("rpc-server", "ggml-rpc-server", "llama-server")]
    for name in names:
        left.exec(["sh", "-c", f"printf '#!/bin/sh\nexit 1\n' > {name}; chmod +x {name}"])
    left.exec(["systemctl", "stop", WORKER])
    cluster.workplace.apply()
    assert "blue" in answer(cluster.lab["head"].address, KEY).lower()
    process = left.exec(["systemctl", "show", "--property=MainPID", "--value", WORKER]).stdout.strip()
    assert left.exec(["readlink", f"/proc/{process}/exe"]).stdout.startswith("/var/lib/hetctl/builds/")
    left.exec(["rm", *names])


def test_what_is_not_ours_is_never_touched(cluster: Cluster) -> None:
    left = cluster.lab["left"]
    left.exec(["sh", "-c", "echo '[Service]' > /etc/systemd/system/hetctl-mine.service"])
    left.exec(["sh", "-c", "mkdir -p /opt/llama && touch /opt/llama/rpc-server"])
    left.exec(["nft", "add", "table", "inet", "mine"])
    before = snapshot(left)
    cluster.workplace.apply()
    assert difference(before, snapshot(left)) == []
    cluster.workplace.expect(0, "destroy", "--confirm", "den", seconds=300)
    assert "table inet mine" in left.exec(["nft", "list", "tables"]).stdout
    left.exec(["test", "-e", "/etc/systemd/system/hetctl-mine.service"])
    left.exec(["test", "-e", "/opt/llama/rpc-server"])
