"""Build of the three native extensions; everything else stands in pyproject.toml."""

import glob
import os
from concurrent.futures import ThreadPoolExecutor

import numpy
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-std=c++17", "-O2", "-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=off", "-g0", "-w"]
LAYERS = ("runtime", "eager", "capture", "inductor")


def extension(layer: str, name: str) -> Extension:
    """All C++ files of a layer's csrc folder as one extension module."""
    headers = glob.glob(os.path.join(layer, "csrc", "**", "*.h"), recursive=True)
    return Extension(f"flambeau.{layer}.{name}", sorted(glob.glob(os.path.join(layer, "csrc", "*.cpp"))),
                     include_dirs=[numpy.get_include(), os.path.join(layer, "csrc")], depends=headers,
                     extra_compile_args=FLAGS, extra_link_args=["-pthread", "-ldl"], language="c++")


class BuildObjects(build_ext):
    """Compiles the files of an extension side by side, one per core."""

    def build_extensions(self):
        compiler, compile_one = self.compiler, self.compiler.compile

        def compile_all(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as workers:
                made = workers.map(lambda source: compile_one([source], **options), sources)
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
setup(packages=packages(), cmdclass={"build_py": BuildFace, "build_ext": BuildObjects},
      ext_modules=[ext for ext in extensions if ext.sources],
      package_data={"flambeau.runtime": ["csrc/*.h", "include/*.h"], "flambeau.eager": ["csrc/*.h"],
                    "flambeau.capture": ["csrc/*.h"]})
