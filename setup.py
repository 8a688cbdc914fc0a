"""Builds the frontend before anything is packed. The metadata is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.build import build
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).resolve().parent / "build_backend"))
import frontend


class BuildFrontend(Command):
    """Build the frontend into the package's source folder, where a wheel, an sdist and an editable install find it."""

    description = "build the frontend with Node.js"
    user_options: ClassVar[list[tuple[str, str, str]]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        frontend.build()

    # What setuptools asks of a build step. The built files are package data, so build_py reports them.
    def get_source_files(self) -> list[str]:
        return []

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Build(build):
    sub_commands: ClassVar = [("build_frontend", None), *build.sub_commands]


class Sdist(sdist):
    def run(self) -> None:
        # Before the list of files is made, so that the archive carries the built frontend.
        self.run_command("build_frontend")
        super().run()


setup(cmdclass={"build": Build, "build_frontend": BuildFrontend, "sdist": Sdist})
