"""Record two well-known teacher and student pairs without computing anything: every tensor is on the meta device.

    python examples/log_pairs.py --logdir runs/pairs

ResNet-50 and ResNet-18 need adapters in every stage; DistilBERT keeps six of BERT's twelve layers and needs none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from models.resnet import resnet18, resnet50

from tb_plugin_structure import StructureWriter


def log_resnets(logdir: Path) -> None:
    """ResNet-50 as teacher of ResNet-18, one image of 224x224."""
    with torch.device("meta"):
        teacher, student = resnet50().eval(), resnet18().eval()
        images = torch.empty(1, 3, 224, 224)
    teacher.requires_grad_(False)
    with StructureWriter(logdir) as writer, torch.no_grad():
        writer.add_structure("ResNet-50", teacher, (images,))
        writer.add_structure("ResNet-18", student, (images,))


def log_berts(logdir: Path) -> None:
    """BERT-base as teacher of DistilBERT, 128 tokens. Built from their default configurations; no download."""
    from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

    # Without an attention mask: transformers would look at its values, and a meta tensor has none.
    with torch.device("meta"):
        teacher = BertModel(BertConfig(attn_implementation="eager")).eval()
        student = DistilBertModel(DistilBertConfig(attn_implementation="eager")).eval()
        tokens = torch.zeros(1, 128, dtype=torch.long)
    teacher.requires_grad_(False)
    with StructureWriter(logdir) as writer, torch.no_grad():
        writer.add_structure("BERT-base", teacher, (tokens,), config=teacher.config)
        writer.add_structure("DistilBERT", student, (tokens,), config=student.config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=Path("runs/pairs"), help="where the event files go")
    logdir = parser.parse_args().logdir
    log_resnets(logdir / "resnet")
    log_berts(logdir / "bert")


if __name__ == "__main__":
    main()
