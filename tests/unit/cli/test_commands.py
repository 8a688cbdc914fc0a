"""``tb-structure`` on event files that it wrote itself."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tb_plugin_structure.cli.main import main

MODELS = "tests.unit.cli.toy_models"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "kd"
    for name in ("teacher", "student"):
        command = ["capture", f"{MODELS}:{name}", "--input", "2,3,16,16", "--name", name, "--logdir", str(path)]
        assert main(command) == 0
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_show_lists_the_records_of_a_log_directory(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", str(logdir))
    assert code == 0
    assert "structure/teacher" in out
    assert "structure/student" in out
    assert "1,226" in out  # 3*32*9 + 32 + 32*10 + 10 parameters of the teacher


def test_show_one_model_and_only_where_the_shape_changes(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", f"{logdir}:student")
    assert "body" in out
    code, out, _ = run(capsys, "show", f"{logdir}:student", "--changes", "--format", "json")
    operators = json.loads(out)
    assert code == 0
    assert operators[0]["outputs"] == [[2, 8, 16, 16]]
    assert operators[0]["macs"] == 2 * 8 * 16 * 16 * 3 * 9
    assert all(row["inputs"][0] != row["outputs"][0] for row in operators)


def test_programs_get_exact_numbers_people_get_rounded_ones(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["capture", f"{MODELS}:student", "--input", "2,3,16,16", "--memory", "--time"]
    (_, body, head) = json.loads(run(capsys, *command, "--format", "json")[1])
    assert (body["parameters"], body["macs"], head["macs"]) == (3 * 8 * 9 + 8, 2 * 8 * 16 * 16 * 3 * 9, 2 * 8 * 10)
    assert body["duration_ns"] > 0
    assert "| 111 k |" in run(capsys, *command, "--format", "md")[1]
    lines = run(capsys, *command, "--format", "csv")[1].splitlines()
    assert (
        lines[0]
        == "level,module,class,output,layout,dtype,parameters,macs,activation_bytes,peak_bytes,duration_ns,flags"
    )
    assert lines[2].startswith("stage,body,Sequential,2×8,BC,float32,224,110592,32832,")


def test_operators_say_what_autograd_keeps_where_it_was_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["capture", f"{MODELS}:student", "--input", "2,3,16,16", "--name", "student", "--logdir", str(tmp_path)]
    run(capsys, *command, "--memory")
    operators = json.loads(run(capsys, "show", f"{tmp_path}:student", "--operators", "--format", "json")[1])
    kept = {row["operator"]: row["saved_bytes"] for row in operators}
    assert (kept["conv2d"], kept["relu"]) == (4 * 2 * 3 * 16 * 16, 4 * 2 * 8 * 16 * 16)
    assert "duration_ns" not in operators[0]


def test_a_narrow_terminal_gets_several_tables_and_loses_no_column() -> None:
    from tb_plugin_structure.cli.tables import TextTable, columns_that_fit

    table = TextTable(("stage", *(f"column{k}" for k in range(9))), [("body", *("12.3 k" for _ in range(9)))])
    narrow = columns_that_fit(table, 40)
    assert [column for columns in narrow for column in columns if column] == list(range(1, 10))
    assert {columns[0] for columns in narrow} == {0}
    assert columns_that_fit(table, 200) == [list(range(10))]


def test_audit_as_text(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "audit", str(logdir))
    assert (code, err) == (0, "")
    assert "Linear(8->32)" in out
    assert "teacher-trainable" in out


def test_equal_records_give_equal_text(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {run(capsys, "audit", str(logdir), "--format", form)[1] for form in ("json", "json")}
    assert len(texts) == 1


def test_audit_as_json_csv_and_markdown(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(run(capsys, "audit", str(logdir), "--format", "json")[1])
    assert {row["verdict"] for row in report["rows"]} == {"match", "adapt"}
    rows = list(csv.DictReader(io.StringIO(run(capsys, "audit", str(logdir), "--format", "csv")[1])))
    assert len(rows) == len(report["rows"])
    convolution = next(row for row in rows if row["student_path"] == "body.0")
    assert convolution["adapter"] == "Conv1x1(8->32)"
    assert convolution["student_shape"] == "2×8×16×16"
    markdown = run(capsys, "audit", str(logdir), "--format", "md")[1]
    assert markdown.startswith("# Shape audit: teacher → student")


def test_audit_as_sarif_and_workflow_commands(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = json.loads(run(capsys, "audit", str(logdir), "--format", "sarif")[1])
    assert log["version"] == "2.1.0"
    results = log["runs"][0]["results"]
    declared = {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in results} == declared
    assert "teacher-trainable" in declared
    lines = run(capsys, "audit", str(logdir), "--format", "github")[1].splitlines()
    assert any(line.startswith("::notice title=teacher-trainable::") for line in lines)


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("adapt", 1),
        ("incompatible", 0),
        ("unmatched", 0),
        ("any-change", 1),
        ("info", 1),
        ("warning", 0),
        ("finding:teacher-trainable", 1),
        ("finding:capacity-gap", 0),
    ],
)
def test_gates(logdir: Path, capsys: pytest.CaptureFixture[str], gate: str, code: int) -> None:
    got, _, err = run(capsys, "audit", str(logdir), "--fail-on", gate)
    assert got == code
    assert (f"not passed: {gate}" in err) == bool(code)


def test_silenced_and_raised_findings(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["--fail-on", "finding:teacher-trainable"]
    assert run(capsys, "audit", str(logdir), "--silence", "teacher-trainable", *gate)[0] == 0
    raised = ["--severity", "teacher-trainable=error", "--fail-on", "error"]
    assert run(capsys, "audit", str(logdir), *raised)[0] == 1


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_what_was_recorded_beside_the_models_is_audited_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The structures are written at step 0, the loss was recorded at step 5."""
    import torch

    from tb_plugin_structure import StructureWriter

    from .toy_models import student, teacher

    models = {"teacher": teacher().eval().requires_grad_(False), "student": student()}
    image = torch.randn(2, 3, 16, 16)
    optimizer = torch.optim.SGD([*models["student"].parameters(), *models["teacher"].parameters()], 0.1)
    with StructureWriter(tmp_path / "kd") as writer:
        for name, model in models.items():
            writer.add_structure(name, model, (image,))
        with writer.record_step(models, step=5, optimizer=optimizer):
            theirs, mine = models["teacher"](image).max(1).values, models["student"](image).max(1, keepdim=True).values
            torch.nn.functional.mse_loss(mine, theirs).backward()
    code, out, _ = run(capsys, "audit", str(tmp_path / "kd"), "--format", "json", "--fail-on", "error")
    assert code == 1
    found = {finding["rule"]: finding["message"] for finding in json.loads(out)["findings"]}
    assert "[2, 1] and [2] broadcast to [2, 2]" in found["silent-broadcast"]
    assert "the optimizer holds 4 parameters of the teacher" in found["teacher-in-optimizer"]


def test_a_model_of_the_log_directory_itself_is_named_beside_runs_with_the_same_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from tb_plugin_structure import StructureWriter

    for folder, width in ((tmp_path, 4), (tmp_path / "small", 2)):
        with StructureWriter(folder) as writer:
            writer.add_structure("teacher", torch.nn.Linear(3, width), torch.zeros(1, 3))
    assert "16 parameters" in run(capsys, "show", f"{tmp_path}:teacher")[1]
    assert "8 parameters" in run(capsys, "show", f"{tmp_path}:small/teacher")[1]


def test_of_several_recorded_steps_the_latest_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The structures do not change and are written at step 0 alone; the loss forgets the teacher from step 2 on."""
    import torch

    from tb_plugin_structure import StructureWriter

    from .toy_models import student, teacher

    models = {"teacher": teacher().eval().requires_grad_(False), "student": student()}
    image = torch.randn(2, 3, 16, 16)
    optimizer = torch.optim.SGD(models["student"].parameters(), 0.1)
    with StructureWriter(tmp_path) as writer:
        for step in range(3):
            with writer.record_step(models, step=step, optimizer=optimizer, attention=False):
                theirs, mine = (model(image) for model in models.values())
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(mine, theirs if step < 2 else torch.zeros_like(mine)).backward()

    def found(*records: str) -> set[str]:
        code, out, _ = run(capsys, "audit", *records, "--format", "json")
        assert code == 0
        return {finding["rule"] for finding in json.loads(out)["findings"]}

    assert "teacher-unused" in found(str(tmp_path))
    assert "teacher-unused" in found(f"{tmp_path}@2")
    assert "teacher-unused" not in found(f"{tmp_path}:teacher@1", f"{tmp_path}:student@1")


def test_diff_of_a_record_with_itself_has_no_change(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teacher, student = f"{logdir}:teacher", f"{logdir}:student"
    assert run(capsys, "diff", teacher, teacher, "--fail-on", "any-change")[0] == 0
    code, out, _ = run(capsys, "diff", teacher, student, "--fail-on", "any-change")
    assert code == 1
    assert "resized" in out


def test_pins_reach_the_alignment(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", str(logdir), "--pin", "head=", "--format", "json")
    rows = {row["student_path"]: row for row in json.loads(out)["rows"]}
    assert code == 0
    assert rows["head"]["verdict"] == "unmatched"


@pytest.mark.parametrize("framework", ["torchdistill", "mmrazor", "textbrewer", "modelopt"])
def test_export(logdir: Path, capsys: pytest.CaptureFixture[str], framework: str) -> None:
    code, out, _ = run(capsys, "export", str(logdir), "--framework", framework)
    assert code == 0
    assert json.loads(out)


def test_a_hook_that_never_fires_fails_a_gate(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ("--fail-on", "finding:hook-never-fires")
    assert run(capsys, "audit", str(logdir), "--hook", "body=body", *gate)[0] == 0
    code, _, err = run(capsys, "audit", str(logdir), "--hook", "module.body=body", *gate)
    assert code == 1
    assert "without its prefix it is 'body'" in err
    assert run(capsys, "audit", str(logdir), "--hook", "body")[0] == 2


def test_capture_measures_times_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    model = (f"{MODELS}:student", "--input", "2,3,16,16")
    _, out, _ = run(capsys, "capture", *model, "--format", "csv")
    assert "duration_ns" not in out.splitlines()[0]
    code, out, _ = run(capsys, "capture", *model, "--time", "--memory", "--format", "csv")
    first = next(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert int(first["duration_ns"]) > 0
    assert int(first["peak_bytes"]) > 0
    code, _, err = run(capsys, "capture", *model, "--meta", "--time")
    assert code == 2
    assert "needs a pass that computes" in err


def test_tables_in_a_terminal_wrap_and_keep_every_word(logdir: Path) -> None:
    from rich.console import Console

    from tb_plugin_structure.cli.tables import TextTable, draw

    parts = [
        "Two pairs.",
        TextTable(("path", "verdict", "n"), [("a[0].b" * 20, "adapt (channels)", 7)], frozenset({2})),
    ]
    for colours in (False, True):
        console = Console(width=60, record=True, file=io.StringIO(), force_terminal=colours, color_system="truecolor")
        draw(parts, console)
        text = console.export_text(styles=False)
        assert max(map(len, text.splitlines())) <= 60
        assert "".join(text.split()).count("a[0].b") >= 19  # no markup taken out; a fold may fall within one
        assert "adapt" in text


def test_workflow_of_the_example_calls_commands_that_exist(logdir: Path) -> None:
    import re

    from tb_plugin_structure.cli.main import build_parser

    workflow = (Path(__file__).parents[3] / "examples" / "github_actions" / "distillation.yml").read_text()
    commands = re.findall(r"run: tb-structure ([^>\n]+)", workflow)
    assert len(commands) == 5
    for command in commands:
        build_parser().parse_args(command.split())


def test_of_two_models_the_larger_is_the_teacher_where_names_do_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, name in (("student", "a"), ("teacher", "b")):
        shape = ["--input", "2,3,16,16", "--logdir", str(tmp_path / "kd")]
        assert main(["capture", f"{MODELS}:{model}", "--name", name, *shape]) == 0
    capsys.readouterr()
    code, out, err = run(capsys, "diff", str(tmp_path / "kd"))
    assert code == 0
    assert "0.26 × parameters" in out
    assert err == "b is taken as the teacher, a as the student\n"


def test_output_goes_to_a_file(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "audit.md"
    code, out, _ = run(capsys, "audit", str(logdir), "--format", "md", "--output", str(target))
    assert (code, out) == (0, "")
    assert target.read_text(encoding="utf-8").startswith("# Shape audit")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "nowhere"], "there is no log directory or event file 'nowhere'"),
        (["audit", "{logdir}:teahcer", "{logdir}:student"], "there is no model 'teahcer'; name one of: teacher"),
        (["audit", "{logdir}:teacher@7", "{logdir}:student"], "has no record at step 7; it has steps [0]"),
        (["show", "{logdir}/../garbage.tfevents"], "holds no structure records"),
        (["audit", "{logdir}", "--fail-on", "finding:nope"], "finding:ID, where ID is one of"),
        (["audit", "{logdir}", "--pin", "head"], "expected STUDENT=TEACHER"),
        (["audit", "{logdir}", "--pin", "haed=head"], "haed"),
        (["audit", "{logdir}", "--silence", "nope"], "there is no rule 'nope'"),
        (["capture", f"{MODELS}:not_a_model", "--input", "1"], "returned int, expected a torch.nn.Module"),
        (["capture", f"{MODELS}:student"], "Give each input as --input SIZES"),
        (["capture", f"{MODELS}:student", "--input", "2,x"], "expected sizes such as 1,3,224,224"),
        (["capture", f"{MODELS}:student", "--input", "2,5,16,16"], "expected input[2, 5, 16, 16] to have 3 channels"),
        (["capture", "no_such_module:model", "--input", "1"], "gave no model: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_2(
    logdir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (logdir.parent / "garbage.tfevents").write_bytes(b"no events")
    code, _, err = run(capsys, *(argument.replace("{logdir}", str(logdir)) for argument in arguments))
    assert code == 2
    assert message in err


def test_reading_needs_no_torch(logdir: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from tb_plugin_structure.cli.main import main\n"
        f"sys.exit(main(['audit', {str(logdir)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Linear(8->32)" in done.stdout
