"""A record of one pass is put together when it is first read: it says what was, and keeps nothing of the model."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch
from torch import nn

from tb_plugin_structure.capture import CaptureFailed, capture
from tb_plugin_structure.records.structure import Structure


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2
        self.layers = nn.Sequential(nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def test_what_is_changed_before_the_first_look_is_not_in_the_record() -> None:
    inputs = torch.ones(2, 96)
    read_at_once = capture(net(), inputs).encode()
    model = net()
    structure = capture(model, inputs)
    with torch.no_grad():
        model.layers[0].weight.fill_(3)
        model.layers[1].running_mean.fill_(3)
    model.scale = 7
    model.train()
    model.layers[0].requires_grad_(False)
    model.layers.append(nn.Identity())
    assert structure.encode() == read_at_once
    assert structure.attributes(0) == {"scale": "2"}
    assert structure.header.totals.trainable_parameters == 96 * 96 + 3 * 96


def test_a_record_that_nobody_has_read_keeps_nothing_alive() -> None:
    model, inputs = net(), torch.ones(2, 96)
    inside = [weakref.ref(model), weakref.ref(model.layers[0].weight), weakref.ref(inputs)]
    structure = capture(model, inputs)
    del model, inputs
    gc.collect()
    assert [reference() for reference in inside] == [None, None, None]
    assert structure.header.totals.module_calls == 5


def test_arguments_that_are_objects_are_read_at_once() -> None:
    branch = nn.Linear(4, 4)

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (branch(x),))

    structure = capture(Branches(), torch.ones(2, 4))
    assert "_pending" not in vars(structure)


def test_threads_that_look_at_once_see_one_record() -> None:
    structure = capture(net(), torch.ones(2, 96))
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(structure.tensors)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(map(id, seen))) == 1


def test_copies_and_pickles_are_whole() -> None:
    inputs = torch.ones(2, 96)
    expected = capture(net(), inputs).to_text()
    assert copy.copy(capture(net(), inputs)).to_text() == expected
    assert copy.deepcopy(capture(net(), inputs)).to_text() == expected
    assert pickle.loads(pickle.dumps(capture(net(), inputs))).to_text() == expected


def test_unknown_names_and_failing_builds_are_told() -> None:
    structure = capture(net(), torch.ones(2, 96))
    with pytest.raises(AttributeError, match="'Structure' object has no attribute 'kernel'"):
        _ = structure.kernel  # type: ignore[attr-defined]

    def fails() -> Structure:
        raise ValueError("no such column")

    broken = Structure.deferred(fails)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such column"):
            _ = broken.header


def test_a_pass_that_raises_is_put_together_at_once() -> None:
    with pytest.raises(CaptureFailed) as caught:
        capture(net(), torch.ones(2, 95))
    assert caught.value.structure is not None
    assert "_pending" not in vars(caught.value.structure)
