"""``tb-structure``: parse the command line and hand over to one function a command.

Exit codes: 0 done; 1 a gate of ``--fail-on`` was not passed; 2 the command could not be carried out (wrong usage,
nothing found, a model that fails to run).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tb_plugin_structure.cli import commands, plan_file
from tb_plugin_structure.cli.event_files import AddressError
from tb_plugin_structure.cli.gates import GateError
from tb_plugin_structure.progress import switched

_ADDRESS = "LOGDIR[:MODEL][@STEP]: a log directory or event file, a model in it, a step (default: the latest)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        with switched(options.progress):
            code: int = options.run(options)
    except (AddressError, GateError, commands.CommandError, plan_file.PlanError) as error:
        print(f"tb-structure: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0
    return code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tb-structure",
        description="Read recorded model structures from event files; compare, audit and gate them.",
        epilog="Exit codes: 0 done, 1 a --fail-on gate was not passed, 2 the command could not be carried out.",
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show on standard error what takes longer than two seconds (where that is a terminal)",
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)

    show = subparsers.add_parser("show", help="what a log directory holds, or one model's operators")
    show.add_argument("record", help=_ADDRESS)
    show.add_argument("--operators", action="store_true", help="every operator instead of the stages")
    show.add_argument("--changes", action="store_true", help="only operators whose output shape differs from the input")
    _output(show, ("text", "md", "json", "csv"))
    show.set_defaults(run=commands.show)

    diff = subparsers.add_parser("diff", help="what changed between two structures")
    _pair(diff)
    diff.add_argument("--fail-on", action="append", default=[], metavar="GATE", help="any-change")
    _output(diff, ("text", "md", "json"))
    diff.set_defaults(run=commands.diff)

    audit = subparsers.add_parser("audit", help="do the features of teacher and student meet, and what else is wrong")
    _pair(audit)
    audit.add_argument("--level", choices=("stage", "block", "leaf"), default="block", help="rows to show (block)")
    audit.add_argument("--norm", action="store_true", help="adapters with a normalisation")
    audit.add_argument(
        "--hook",
        action="append",
        default=[],
        metavar="STUDENT=TEACHER",
        help="modules that your loss hooks; a path where nothing runs becomes a finding; may be repeated",
    )
    audit.add_argument("--silence", action="append", default=[], metavar="RULE[:PATTERN]", help="leave findings out")
    audit.add_argument("--severity", action="append", default=[], metavar="RULE=LEVEL", help="change a severity")
    audit.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="GATE",
        help="adapt, incompatible, unmatched, any-change, info, warning, error, or finding:ID; may be repeated",
    )
    _output(audit, ("text", "md", "json", "csv", "sarif", "github"))
    audit.set_defaults(run=commands.audit)

    export = subparsers.add_parser(
        "export", help="the Graph diff as one HTML file, or the pairs as configuration of a distillation framework"
    )
    _pair(export)
    export.add_argument(
        "--framework",
        choices=("torchdistill", "mmrazor", "textbrewer", "modelopt"),
        help="the configuration of this framework, as JSON, instead of the page",
    )
    export.add_argument(
        "--level", default="main", choices=("main", "stage", "block", "leaf"), help="pairs for the framework (main)"
    )
    export.add_argument(
        "--output", "--out", metavar="FILE", help="write there; FILE.html without --framework: the Graph diff"
    )
    export.set_defaults(run=commands.export)

    plan = subparsers.add_parser("plan", help="write pins and policies, as the Graph diff saves them, into a run")
    plan.add_argument("file", help='JSON: {"teacher": …, "student": …, "policy": …, "policies": {…}, "pins": {…}}')
    plan.add_argument("--logdir", required=True, help="the run with the two models, e.g. runs/kd")
    plan.add_argument("--teacher", help="name of the teacher's record (as the file says, else 'teacher')")
    plan.add_argument("--student", help="name of the student's record (as the file says, else 'student')")
    plan.add_argument("--step", type=int, help="training step from which the plan holds (after the plans so far)")
    plan.set_defaults(run=plan_file.write_plan)

    capture = subparsers.add_parser("capture", help="record a model without a training script (needs torch)")
    capture.add_argument("factory", help="MODULE:FUNCTION that returns a torch.nn.Module, e.g. my_models:resnet18")
    capture.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]SIZES[:DTYPE]",
        help="a tensor, e.g. 1,3,224,224 or input_ids=1,128:int64; repeat for several",
    )
    capture.add_argument("--logdir", help="write an event file there")
    capture.add_argument("--name", default="model", help="name of the model in the record")
    capture.add_argument("--variant", default="", help="name of the variant")
    capture.add_argument("--train", action="store_true", help="in training mode (default: evaluation mode)")
    capture.add_argument("--meta", action="store_true", help="without weights and without computing")
    capture.add_argument("--time", action="store_true", help="measure times: medians of five further, warm passes")
    capture.add_argument("--memory", action="store_true", help="measure peak memory, and what autograd keeps")
    capture.add_argument("--symbolic", action="store_true", help="each dimension as an expression of the inputs' ones")
    _output(capture, ("text", "md", "json", "csv"))
    capture.set_defaults(run=commands.capture)

    importing = subparsers.add_parser("import", help="a model file of another tool as a structure")
    importing.add_argument("file", help="an ExportedProgram (.pt2), TorchScript (.pt) or ONNX file")
    importing.add_argument("--logdir", help="write an event file there")
    importing.add_argument("--name", help="name of the model in the record (default: the file's name)")
    importing.add_argument("--variant", default="", help="name of the variant")
    _output(importing, ("text", "md", "json", "csv"))
    importing.set_defaults(run=commands.import_model)
    return parser


def _pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("teacher", help=_ADDRESS)
    parser.add_argument("student", nargs="?", help="the same; left out: the models 'teacher' and 'student' of one run")
    parser.add_argument("--policy", default="copy", help="policy for stacks of equal blocks (copy)")
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="STUDENT=TEACHER",
        help="pair these modules; nothing after '=' says that there is no counterpart; may be repeated",
    )


def _output(parser: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    parser.add_argument("--format", choices=formats, default="text")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to the terminal")


if __name__ == "__main__":
    sys.exit(main())
