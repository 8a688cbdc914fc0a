"""Models with what trips recorders run as without recording, and their records account for everything."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer

from tb_plugin_structure.capture import capture, observe
from tb_plugin_structure.records.structure import Structure
from tests.support.tiny_transformers import FAMILIES, tiny_model
from tests.unit.capture.hard import HARD as FIRST
from tests.unit.capture.replay import record, replay
from tests.unit.capture.test_harmless import contents, global_hooks, hooks_of, train_step
from tests.unit.capture.unusual import UNUSUAL

HARD: dict[str, Any] = FIRST | UNUSUAL

LAYERS: dict[str, Any] = {
    "adaptive_pool": lambda: (nn.AdaptiveAvgPool2d(2), (torch.randn(1, 2, 5, 5),)),
    "batch_norm_3d": lambda: (nn.BatchNorm3d(2).train(), (torch.randn(2, 2, 3, 3, 3),)),
    "conv_1d_circular": lambda: (nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), (torch.randn(1, 2, 6),)),
    "conv_3d_grouped": lambda: (nn.Conv3d(2, 4, 2, groups=2), (torch.randn(1, 2, 3, 3, 3),)),
    "cosine_similarity": lambda: (nn.CosineSimilarity(), (torch.randn(2, 4), torch.randn(2, 4))),
    "cross_entropy": lambda: (nn.CrossEntropyLoss(label_smoothing=0.1), (torch.randn(3, 4), torch.tensor([0, 1, 3]))),
    "ctc_loss": lambda: (
        nn.CTCLoss(),
        (torch.randn(5, 1, 4).log_softmax(-1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])),
    ),
    "fold_unfold": lambda: (nn.Sequential(nn.Unfold(2), nn.Fold((3, 3), 2)), (torch.randn(1, 2, 3, 3),)),
    "fractional_pool": lambda: (nn.FractionalMaxPool2d(2, output_size=2), (torch.randn(1, 1, 5, 5),)),
    "glu": lambda: (nn.GLU(), (torch.randn(2, 4),)),
    "gru_cell": lambda: (nn.GRUCell(4, 3), (torch.randn(2, 4),)),
    "layer_norm": lambda: (nn.LayerNorm(4), (torch.randn(2, 4),)),
    "local_response": lambda: (nn.LocalResponseNorm(2), (torch.randn(1, 3, 4, 4),)),
    "lstm_projected": lambda: (nn.LSTM(4, 4, proj_size=2, bidirectional=True), (torch.randn(3, 2, 4),)),
    "pixel_shuffle": lambda: (nn.PixelShuffle(2), (torch.randn(1, 4, 2, 2),)),
    "rms_norm": lambda: (nn.RMSNorm(4), (torch.randn(2, 4),)),
    "softmax_2d": lambda: (nn.Softmax2d(), (torch.randn(1, 2, 3, 3),)),
    "transformer_decoder": lambda: (
        nn.TransformerDecoderLayer(4, 2, 8, batch_first=True),
        (torch.randn(1, 3, 4), torch.randn(1, 2, 4)),
    ),
    "triplet_loss": lambda: (nn.TripletMarginLoss(), (torch.randn(2, 4), torch.randn(2, 4), torch.randn(2, 4))),
    "upsample": lambda: (nn.Upsample(scale_factor=2, mode="bicubic"), (torch.randn(1, 1, 3, 3),)),
}
MODELS: dict[str, Any] = {f"hard {name}": make for name, make in HARD.items()}
MODELS |= {f"layer {name}": (lambda make=make: (*make(), {})) for name, make in LAYERS.items()}
MODELS |= {
    f"transformers {name}": (lambda name=name: (lambda m, inputs: (m, (), inputs))(*tiny_model(name)))
    for name in FAMILIES
    if name != "squeezebert"  # its grouped convolutions do not divide the widths of the tiny configuration
}


@pytest.mark.parametrize("name", MODELS)
def test_runs_as_without_recording(name: str) -> None:
    """Outputs, gradients, buffers, random state and hooks are those of a plain run, bit for bit."""
    torch.manual_seed(0)
    twin, twin_args, twin_kwargs = MODELS[name]()
    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]()
    before = hooks_of(model), global_hooks()
    torch.manual_seed(1)
    plain = train_step(twin, twin_args, twin_kwargs)
    state = torch.get_rng_state()

    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*tb_plugin_structure.*")
        with observe({"model": model}) as region:
            observed = train_step(model, args, kwargs)

    assert observed == plain
    assert torch.equal(torch.get_rng_state(), state)
    assert contents(dict(model.named_buffers())) == contents(dict(twin.named_buffers()))
    assert global_hooks() == before[1]
    assert hooks_of(model)[: len(before[0])][0] == before[0][0]

    structure = Structure.decode(region.structures["model"].encode())
    assert [note for note in structure.header.notes if "incomplete" in note] == []
    assert not structure.header.HasField("error")
    # Every value has a producer or says where it comes from.
    assert ((structure.tensors["producer"] >= 0) == (structure.tensors["origin"] == 0)).all()


UNREPLAYABLE = {
    "conditions_as_operators": "branches are functions, which a record does not keep",
    "loops_as_operators": "bodies are functions, which a record does not keep",
    "flexible_attention": "the score modification is a function",
    "copies_inside_the_forward": "torch.load hands a storage to a kernel",
    "quantised_layers": "weights are packed into an object of C++",
    "exception_caught_inside": "the kernel that raised has no results to compare",
    "exceptions_as_control_flow": "the kernel that raised has no results to compare",
    "random_numbers_of_every_kind": "a generator is an object that a record does not keep",
    "default_device_and_dtype_changed_inside": "the default dtype is no argument of the kernel",
    "encoder_on_its_fast_path_with_padding": "nested tensors with strides have no sizes",
    "nested_tensor_as_input": "nested tensors with strides have no sizes",
    "nested_tensors": "the inside of a jagged tensor is not recorded",
    "ragged_attention": "the inside of a jagged tensor is not recorded",
    "dynamically_quantised": "weights are packed into an object of C++",
    "host_memory_shared_and_frombuffer": "a storage in shared memory is handed to a kernel",
    "layer_cast_to_another_precision_and_back": "memory changes hands below the dispatcher",
    "saved_and_loaded_within": "torch.load hands a storage to a kernel",
    "weights_of_a_quantising_subclass": "what a subclass holds is its own affair",
    "fake_tensors_within_the_forward": "tensors without values have none to compare",
    "lazy_layers_that_become_real_in_the_pass": "the parameter that is made has no shape before",
    "associative_scan_as_an_operator": "the combination is a function, which a record does not keep",
}


@pytest.mark.parametrize("name", sorted(set(HARD) - set(UNREPLAYABLE)))
def test_edges_carry_every_value(name: str) -> None:
    torch.manual_seed(0)
    structure, observed = record(*HARD[name]())
    assert replay(structure, observed) > 0
    torch.manual_seed(0)
    structure, observed = record(*HARD[name]())
    if "layer_drop" not in name and "checkpoint" not in name and "modules_made" not in name and "packed" not in name:
        # Random numbers differ when kernels are left out.
        assert replay(structure, observed, slice_of_output=True) > 0


@pytest.mark.parametrize("name", HARD)
def test_capture_leaves_buffers_random_state_and_modes_as_they_were(name: str) -> None:
    torch.manual_seed(0)
    model, args, kwargs = HARD[name]()
    # Copies: memory that numpy has seen cannot be resized, and an observer of ranges resizes its buffers.
    buffers = {name: b for name, b in model.named_buffers() if not isinstance(b, UninitializedBuffer)}
    registered = contents({name: buffer.clone() for name, buffer in buffers.items()})
    shapes = {name: buffer.shape for name, buffer in buffers.items()}
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    structure = capture(model, args, kwargs)
    assert structure.operators.rows > 0
    after = dict(model.named_buffers())
    assert {name: after[name].shape for name in shapes} == shapes
    assert contents({name: after[name] for name in shapes}) == registered
    assert [module.training for module in model.modules()][: len(modes)] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_operators_of_exported_modules_are_named_after_what_was_called() -> None:
    structure = capture(*HARD["exported_and_traced_modules"]()[:2])
    assert structure.operators.column_texts("name") == ["linear", "relu", "linear", "sigmoid"]


def test_operators_on_subclasses_are_named_after_their_kernels() -> None:
    """The frame around them, within torch, calls a variable named ``func``."""
    structure = capture(*HARD["nested_tensors"]()[:2])
    assert "func" not in structure.operators.column_texts("name")


def calls(name: str) -> list[tuple[str, int, int]]:
    """(path, call around it, ordinal) of each module call."""
    structure = capture(*HARD[name]()[:2], kwargs=HARD[name]()[2])
    table = structure.module_calls
    rows = zip(table["parent"].tolist(), table["ordinal"].tolist(), strict=True)
    return [(structure.call_path(call), parent, ordinal) for call, (parent, ordinal) in enumerate(rows)]


def test_recursion_nests_calls_of_one_module() -> None:
    assert calls("recursion_over_one_module") == [
        ("", -1, 0),
        ("fold", 0, 0),
        ("", 0, 0),
        ("fold", 2, 0),
        ("", 2, 0),
        ("fold", 4, 0),
        ("", 4, 0),
    ]


def test_a_generator_gives_one_call_a_step() -> None:
    assert calls("generator_of_outputs") == [("", -1, 0), ("a", 0, 0), ("b", 0, 0), ("a", 0, 1)]


def test_what_a_generator_runs_late_belongs_to_the_caller_that_drains_it() -> None:
    assert calls("generator_that_the_caller_drains") == [
        ("", -1, 0),
        ("inner", 0, 0),
        ("inner.a", 0, 0),
        ("inner.b", 0, 0),
    ]


def test_layers_that_are_replaced_while_the_model_runs_keep_their_paths() -> None:
    found = [path for path, _, _ in calls("layers_replaced_one_after_another_on_the_first_call") if "inner" in path]
    assert found == ["layers.0.inner", "layers.1.inner", "layers.2.inner", "layers.3.inner"]


def test_shared_layers_are_one_module_with_two_calls() -> None:
    structure = capture(*HARD["tied_and_shared"]()[:2])
    assert calls("tied_and_shared")[1:] == [("embedding", 0, 0), ("layer", 0, 0), ("layer", 0, 1), ("out", 0, 0)]
    assert structure.modules.texts("aliases", structure.module_row["layer"]) == ["same"]
    assert structure.header.totals.parameters == 9 * 4 + 20


def test_low_rank_adapters_are_modules_of_their_own() -> None:
    assert [path for path, _, _ in calls("low_rank_adapters")] == [
        "",
        "0",
        "0.base_layer",
        "0.lora_A.default",
        "0.lora_B.default",
        "1",
        "2",
        "2.base_layer",
        "2.lora_A.default",
        "2.lora_B.default",
    ]


def test_an_exception_that_the_model_catches_is_no_error_of_the_pass() -> None:
    structure = capture(*HARD["exception_caught_inside"]()[:2])
    assert not structure.header.HasField("error")
    assert [path for path, _, _ in calls("exception_caught_inside")] == ["", "a", "b"]


def test_scripted_modules_are_opaque_with_their_kernels_inside() -> None:
    structure = capture(*HARD["compiled_part_and_scripted_part"]()[:2])
    (scripted,) = [call for call in range(structure.module_calls.rows) if structure.call_path(call) == "scripted"]
    begin, end = (int(structure.module_calls[name][scripted]) for name in ("operator_begin", "operator_end"))
    inside = [
        structure.kernels.text("name", kernel)
        for kernel in range(
            int(structure.operators["kernel_begin"][begin]), int(structure.operators["kernel_end"][end - 1])
        )
    ]
    assert inside == ["aten.t.default", "aten.addmm.default", "aten.tanh.default"]
    assert structure.output_shapes(scripted) == [("", (3, 4))]
    assert any("TorchScript" in note for note in structure.header.notes)
    # The compiled part runs as the Python it was made from, under its own path.
    assert "compiled" in structure.module_paths


def test_groups_are_large_enough() -> None:
    assert len(HARD) >= 40
    assert len(FAMILIES) >= 20
    assert len(LAYERS) >= 20
