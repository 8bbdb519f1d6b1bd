"""llama-server's arguments and variables that a manifest key stands for, and those that no placement may use.

A value given twice would leave it to llama.cpp which one counts, and hetctl would report the other. Spellings
are those of llama.cpp b11434 (common/arg.cpp) and the older ones it replaced.
"""

from __future__ import annotations

from typing import Final

_KEYS: Final[dict[str, str]] = {
    "model": "-m --model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file",
    "alias": "-a --alias",
    "devices": "-dev --device --rpc",
    "layers": (
        "-ngl --gpu-layers --n-gpu-layers -ts --tensor-split -fit --fit -fitt --fit-target -fitc --fit-ctx"
    ),
    "nCpuMoe": "-ncmoe --n-cpu-moe -cmoe --cpu-moe",
    "overrides": "-ot --override-tensor",
    "context": "-c --ctx-size",
    "slots": "-np --parallel",
    "kvUnified": "-kvu --kv-unified -no-kvu --no-kv-unified --kv-unified-per-slot",
    "kvCache.k": "-ctk --cache-type-k",
    "kvCache.v": "-ctv --cache-type-v",
    "flashAttention": "-fa --flash-attn",
    "splitMode": "-sm --split-mode",
    "mainGpu": "-mg --main-gpu",
    "threads": "-t --threads",
    "threadsBatch": "-tb --threads-batch",
    "batch": "-b --batch-size",
    "ubatch": "-ub --ubatch-size",
    "loadMode": "-lm --load-mode --mlock --mmap --no-mmap -dio --direct-io -ndio --no-direct-io",
    "cacheRam": "-cram --cache-ram",
    "mmproj": (
        "-mm --mmproj -mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto -mmdev --mmproj-device"
    ),
    "lora": "--lora --lora-scaled",
    "chatTemplate": "--chat-template --chat-template-file",
    "task": "--embedding --embeddings --rerank --reranking",
    "pooling": "--pooling",
    "speculative": (
        "-md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft --spec-draft-hf --spec-type"
        " -devd --device-draft --spec-draft-device"
        " --spec-ngram-mod-n-max --spec-ngram-mod-n-min"
        " -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl"
        " --draft --draft-n --draft-max --spec-draft-n-max --draft-min --draft-n-min --spec-draft-n-min"
    ),
    "server.listen": "--host",
    "server.port": "--port",
    "server.apiKeys": "--api-key --api-key-file",
    "server.tls": "--ssl-key-file --ssl-cert-file",
}

FLAG_KEYS: Final = {flag: key for key, flags in _KEYS.items() for flag in flags.split()}
"""Argument of llama-server -> key of a placement that stands for it."""

_REFUSED: Final[dict[str, str]] = {
    "is set by hetctl itself, always to the same": (
        "-lv --verbosity --log-verbosity -v --verbose --log-colors --log-disable --log-file"
        " --ui --no-ui --webui --no-webui --offline"
    ),
    "turns the server into a router of many models; a placement serves one": (
        "--models-dir --models-preset --models-max --models-autoload --no-models-autoload"
    ),
    "prints something and ends, or talks to another server": (
        "-h --help --usage --version --license --list-devices -cl --cache-list --completion-bash"
        " --server-base"
    ),
    "makes the server download what nobody declared": (
        "-hft --hf-token --embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default"
        " --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default"
        " --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default"
    ),
}

REFUSED_FLAGS: Final = {flag: why for why, flags in _REFUSED.items() for flag in flags.split()}
"""Argument of llama-server that no placement may use -> what it does."""

VARIABLE_KEYS: Final = {
    "LLAMA_API_KEY": "server.apiKeys",
    "CUDA_VISIBLE_DEVICES": "devices",
    "CUDA_DEVICE_ORDER": "devices",
    "NVIDIA_VISIBLE_DEVICES": "devices",
    "HIP_VISIBLE_DEVICES": "devices",
    "ROCR_VISIBLE_DEVICES": "devices",
    "ONEAPI_DEVICE_SELECTOR": "devices",
    "GGML_VK_VISIBLE_DEVICES": "devices",
    "GGML_CUDA_DEVICES": "devices",
    "GGML_RPC_NO_RDMA": "rpc.transport",
}
"""Environment variable -> key that stands for it. LLAMA_ARG_* are refused as a whole."""

VARIABLE_PREFIX: Final = "LLAMA_ARG_"
"""How variables begin that stand for an argument of llama-server."""

RENDERED_OPTIONS: Final = {
    "GGML_NATIVE": "a native build breaks on other machines",
    "GGML_RPC": "workers need it; it is always on",
    "GGML_CUDA": "write it as `backends`",
    "GGML_HIP": "write it as `backends`",
    "GGML_SYCL": "write it as `backends`",
    "GGML_VULKAN": "write it as `backends`",
    "CMAKE_CUDA_ARCHITECTURES": "write it as `cudaArchitectures`",
    "CMAKE_BUILD_TYPE": "it is always Release",
    "CMAKE_INSTALL_PREFIX": "hetctl chooses where builds go",
    "LLAMA_BUILD_NUMBER": "it comes from `version`",
    "LLAMA_BUILD_COMMIT": "it comes from `source.commit`",
    "LLAMA_BUILD_UI": "use `ui`; an unpinned download would make two builds of one name differ",
    "LLAMA_USE_PREBUILT_UI": "use `ui`; an unpinned download would make two builds of one name differ",
}
"""CMake options that hetctl sets itself, and why."""
