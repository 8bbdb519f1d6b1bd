"""Embedding and reranking on real hosts: over RPC and on a head's own processor."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import WorkplaceFactory
from tests.end_to_end.workplace import Workplace
from tests.lab.fixtures import LabFactory
from tests.lab.hosts import Lab

MANIFEST = """\
apiVersion: hetctl/v1
kind: Cluster
name: den
nodes:
  head: {{address: {head}}}
  left: {{address: {left}, cpuWorkers: {{one: {{threads: 1}}, two: {{threads: 1}}}}}}
builds: {{main: {{version: b11434, source: {{archive: {source}}}, on: local}}}}
models:
  sentences: {{source: {embedding}}}
  ranks: {{source: {ranking}}}
placements:
  embed:
    {{model: sentences, task: embedding, devices: [left/one], server: {{node: head, port: 8081}}}}
  rank: {{model: ranks, task: rerank, devices: [left/two], context: 512, server: {{node: head, port: 8082}}}}
  own: {{model: sentences, task: embedding, devices: [left/cpu], context: 512, server: {{port: 8083}}}}
"""


@pytest.fixture(scope="module")
def hosts(lab: LabFactory) -> Lab:
    return lab("head", "left")


@pytest.fixture(scope="module")
def workplace(
    hosts: Lab,
    workplace_beside: WorkplaceFactory,
    llama_source: Path,
    embedding_model: Path,
    ranking_model: Path,
) -> Workplace:
    made = workplace_beside(hosts)
    made.write(
        MANIFEST.format(
            head=hosts["head"].address,
            left=hosts["left"].address,
            source=llama_source,
            embedding=embedding_model,
            ranking=ranking_model,
        )
    )
    made.apply()
    return made


def post(address: str, port: int, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"http://{address}:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - an address of the lab
        return json.load(answer)


def product(one: list[float], other: list[float]) -> float:
    return sum(left * right for left, right in zip(one, other, strict=True))


def vector(address: str, port: int, text: str) -> list[float]:
    found: list[float] = post(address, port, "/v1/embeddings", {"input": text})["data"][0]["embedding"]
    return found


@pytest.mark.parametrize(("host", "port"), [("head", 8081), ("left", 8083)])
def test_embeddings_mean_something(workplace: Workplace, hosts: Lab, host: str, port: int) -> None:
    assert workplace.manifest.exists()
    address = hosts[host].address
    cat, kitten, invoice = (
        vector(address, port, text) for text in ("a cat", "a kitten", "an unpaid invoice")
    )
    assert len(cat) == 384
    assert product(cat, kitten) > product(cat, invoice) + 0.2


def test_the_relevant_document_comes_first(workplace: Workplace, hosts: Lab) -> None:
    assert workplace.manifest.exists()
    documents = ["The train leaves at nine.", "Pandas are bears that eat bamboo."]
    answer = post(
        hosts["head"].address, 8082, "/v1/rerank", {"query": "What do pandas eat?", "documents": documents}
    )
    scores = {row["index"]: row["relevance_score"] for row in answer["results"]}
    assert scores[1] > scores[0]


def test_everything_is_as_declared(workplace: Workplace) -> None:
    workplace.expect(0, "diff")
    workplace.expect(0, "status")


def test_a_model_that_cannot_rank_is_found_out(workplace: Workplace) -> None:
    workplace.write(workplace.manifest.read_text().replace("rank: {model: ranks", "rank: {model: sentences"))
    outcome = workplace.apply(4)
    assert "rank" in outcome.stdout + outcome.stderr
    # what worked before works again
    status = workplace.run("status", "-o", "json").document
    assert {item["placement"]: item["health"] for item in status["placements"]}["rank"] == "ready"
