"""A fault of ours must never end TensorBoard or hide another plugin."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tb_plugin_structure.dashboards import loaders


def test_the_entry_points_import_only_tensorboards_base_plugin() -> None:
    code = (
        "import sys\n"
        "import tensorboard.plugins.base_plugin\n"
        "before = set(sys.modules)\n"
        "import tb_plugin_structure.dashboards.loaders\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names\n"
        "assert new == {'tb_plugin_structure'}, new\n"
        "assert 'tb_plugin_structure.records' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_record_is_kept_unless_the_user_says_otherwise() -> None:
    flags = argparse.Namespace(samples_per_plugin={"structure_record": 5})
    loaders.GraphDiffLoader().fix_flags(flags)
    assert flags.samples_per_plugin["structure_record"] == 5
    assert flags.samples_per_plugin["structure_attention_overview"] == 0
    for unusual in (None, argparse.Namespace(), argparse.Namespace(samples_per_plugin=None)):
        loaders.GraphDiffLoader().fix_flags(unusual)


def test_a_plugin_that_cannot_load_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "tb_plugin_structure.dashboards.plugin", None)
    import tb_plugin_structure.dashboards as package

    monkeypatch.delattr(package, "plugin", raising=False)
    assert loaders.AttentionLoader().load(SimpleNamespace(plugin_name_to_instance={})) is None
    assert "'structure_attention' is not available" in caplog.text


def test_a_second_installation_of_the_same_plugin_steps_back() -> None:
    context = SimpleNamespace(plugin_name_to_instance={"structure_graph_diff": object()})
    assert loaders.GraphDiffLoader().load(context) is None


def test_the_fast_checksum_is_used_only_when_asked_for() -> None:
    code = (
        "import argparse\n"
        "from tensorboard.compat.tensorflow_stub import pywrap_tensorflow\n"
        "from tb_plugin_structure.dashboards.loaders import GraphDiffLoader\n"
        "own = pywrap_tensorflow.masked_crc32c\n"
        "for arguments, changed in (([], False), (['--structure_fast_checksum'], True)):\n"
        "    parser = argparse.ArgumentParser()\n"
        "    GraphDiffLoader().define_flags(parser)\n"
        "    GraphDiffLoader().fix_flags(parser.parse_args(arguments))\n"
        "    assert (pywrap_tensorflow.masked_crc32c is not own) == changed\n"
        "assert pywrap_tensorflow.masked_crc32c(b'123456789') == own(b'123456789')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
