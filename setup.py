"""Build of the three native extensions; everything else stands in pyproject.toml.

Objects are kept in build/objects, under a hash of their text, of the headers that they include, the flags and the compiler, so
that only what changed is compiled again. Those of files that know nothing of Python (the kernels, which take most of the time)
are taken from there by environments of other Pythons, too.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import numpy
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-std=c++17", "-O2", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off", "-g0", "-w"]
DIRECT = ["-fno-plt"]  # of files that call Python: calls of 300 ns make dozens of such calls, and are 3 to 5% faster
LAYERS = ("runtime", "eager", "capture", "inductor", "cli")


def extension(layer: str, name: str) -> Extension:
    """All C++ files of a layer's csrc folder as one extension module."""
    headers = glob.glob(os.path.join(layer, "csrc", "**", "*.h"), recursive=True)
    return Extension(
        f"flambeau.{layer}.{name}",
        sorted(glob.glob(os.path.join(layer, "csrc", "*.cpp"))),
        include_dirs=[numpy.get_include(), os.path.join(layer, "csrc")],
        depends=headers,
        extra_compile_args=FLAGS,
        extra_link_args=["-pthread", "-ldl"],
        language="c++",
    )


def text_of(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def knows_python(path: str, seen: set) -> bool:
    """Whether a file includes Python's or numpy's headers, itself or through headers beside it; `seen` gets those and it."""
    seen.add(path)
    included = re.findall(r'^\s*#\s*include\s*[<"](.+?)[>"]', text_of(path), re.MULTILINE)
    beside = [os.path.join(os.path.dirname(path), name) for name in included]
    below = [knows_python(other, seen) for other in beside if other not in seen and os.path.exists(other)]
    return any(name == "Python.h" or name.startswith("numpy/") for name in included) or any(below)


def kept_object(source: str, command: list[str]) -> str:
    """Where the object of a file is kept: by all that it is made of."""
    files: set = set()
    surroundings = [sys.version, sysconfig.get_config_var("SOABI"), numpy.__version__] if knows_python(source, files) else []
    texts = [text_of(path) for path in sorted(files)]
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True).stdout
    key = hashlib.sha256("\0".join([*texts, *command, version, *surroundings]).encode()).hexdigest()[:40]
    return os.path.join("build", "objects", f"{key}.o")


class BuildObjects(build_ext):
    """Compiles the files of an extension side by side, one per core."""

    def build_extensions(self):
        compiler, compile_one = self.compiler, self.compiler.compile
        program = getattr(compiler, "compiler_so_cxx", compiler.compiler_so)[0]
        command = [program, "-fPIC", "-pthread", "-DNDEBUG", "-fwrapv", *FLAGS, "-c"]

        def compile_source(source, options):
            small = knows_python(source, set())
            flags = DIRECT if small else []
            kept = kept_object(source, [*command, *flags])
            if os.path.exists(kept):
                os.utime(kept)  # the linker compares times: an object of a text that is back must count as new
                return [kept]
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            if small:
                given = {**options, "extra_postargs": [*(options.get("extra_postargs") or ()), *flags]}
                shutil.copyfile(*compile_one([source], **given), f"{kept}.{os.getpid()}")
            else:
                subprocess.run([*command, source, "-o", f"{kept}.{os.getpid()}"], check=True)
            os.replace(f"{kept}.{os.getpid()}", kept)
            return [kept]

        def compile_all(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as workers:
                made = workers.map(lambda source: compile_source(source, options), sources)
                return [name for names in made for name in names]

        compiler.compile = compile_all
        super().build_extensions()


class BuildFace(build_py):
    """The root folder is a package: its build and test files are not part of it."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [entry for entry in found if package != "flambeau" or entry[1] not in ("setup", "conftest")]


def packages() -> list[str]:
    """The root is the package `flambeau`; its layers and their folders are the sub-packages."""
    found = ["flambeau"]
    for layer in LAYERS:
        found += [f"flambeau.{layer}"] + [f"flambeau.{layer}.{name}" for name in find_packages(layer)]
    return found


os.chdir(HERE)
extensions = [extension("runtime", "_native"), extension("eager", "_call"), extension("capture", "_capture")]
setup(
    packages=packages(),
    cmdclass={"build_py": BuildFace, "build_ext": BuildObjects},
    ext_modules=[ext for ext in extensions if ext.sources],
    package_data={
        "flambeau.runtime": ["csrc/*.h", "include/*.h"],
        "flambeau.eager": ["csrc/*.h"],
        "flambeau.capture": ["csrc/*.h"],
        "flambeau.eager.compat": ["*.txt", "absent/*.txt"],
        "flambeau.capture.report": ["*.html", "*.css", "*.js"],
        "flambeau.inductor.triton": ["*.cpp"],
    },
)
