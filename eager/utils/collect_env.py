"""torch.utils.collect_env: what a report of an error should say about the machine."""

import importlib.metadata
import platform
import sys

from ...runtime import native, toolchain
from ..compat import version

PACKAGES = ("numpy", "triton", "torchvision", "torchaudio", "timm", "transformers", "lightning")


def _installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def get_env_info():
    """Facts by name."""
    package = __name__.partition(".")[0]
    versions = {name: found for name in PACKAGES if (found := _installed(name))}
    return {
        "PyTorch version": f"{version.__version__} (its API; {package} {_installed(package)})",
        "OS": platform.platform(),
        "Python version": sys.version.replace("\n", ""),
        "Python platform": sys.platform,
        "C++ compiler": toolchain.compiler(),
        "CPU": platform.processor() or platform.machine(),
        "CPU capability": native.chosen_instructions(),
        "threads": native.get_num_threads(),
        "Versions of relevant libraries": versions,
    }


def pretty_str(envinfo):
    lines = ["Collecting environment information..."]
    for name, value in envinfo.items():
        lines += [f"{name}:", *[f"[pip] {n}=={v}" for n, v in value.items()]] if isinstance(value, dict) else [f"{name}: {value}"]
    return "\n".join(lines)


def get_pretty_env_info():
    return pretty_str(get_env_info())


def main():
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
