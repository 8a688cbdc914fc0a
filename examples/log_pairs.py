"""Record well-known teacher and student pairs without computing anything: every tensor is on the meta device.

    python examples/log_pairs.py --logdir runs/pairs            # ResNet-50 and 18, BERT and DistilBERT
    python examples/log_pairs.py --logdir runs/pairs --all      # as well ViT and DeiT, Llama 70B and 8B, two Whispers

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


def log_vits(logdir: Path) -> None:
    """ViT-Base as teacher of DeiT-Tiny, one image of 224x224."""
    from transformers import DeiTConfig, DeiTModel, ViTConfig, ViTModel

    tiny = DeiTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768, attn_implementation="eager")
    with torch.device("meta"):
        teacher = ViTModel(ViTConfig(attn_implementation="eager")).eval()
        student = DeiTModel(tiny).eval()
        images = torch.empty(1, 3, 224, 224)
    with StructureWriter(logdir) as writer, torch.no_grad():
        writer.add_structure("ViT-Base", teacher, (images,))
        writer.add_structure("DeiT-Tiny", student, (images,))


def log_llamas(logdir: Path) -> None:
    """Llama 3 with 70 billion parameters as teacher of the one with 8 billion, 128 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    # hidden size, layers, heads, inner size
    sizes = {"Llama-70B": (8192, 80, 64, 28672), "Llama-8B": (4096, 32, 32, 14336)}
    with StructureWriter(logdir) as writer, torch.no_grad():
        for name, (hidden, layers, heads, inner) in sizes.items():
            config = LlamaConfig(
                vocab_size=128256,
                hidden_size=hidden,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=8,
                intermediate_size=inner,
                use_cache=False,
                attn_implementation="eager",
                dtype="bfloat16",
            )
            with torch.device("meta"):
                model = LlamaForCausalLM(config).eval()
                # Without a ready mask transformers would look at the values of the positions.
                tokens, mask = torch.zeros(1, 128, dtype=torch.long), torch.zeros(1, 1, 128, 128)
            writer.add_structure(name, model, (tokens,), {"attention_mask": mask, "position_ids": tokens})


def log_whispers(logdir: Path) -> None:
    """Whisper large as teacher of Distil-Whisper, which keeps two of its 32 decoder layers; 30 seconds of sound."""
    from transformers import WhisperConfig, WhisperModel

    with StructureWriter(logdir) as writer, torch.no_grad():
        for name, layers in (("Whisper-large", 32), ("Distil-Whisper", 2)):
            config = WhisperConfig(
                vocab_size=51866,
                num_mel_bins=128,
                d_model=1280,
                encoder_layers=32,
                decoder_layers=layers,
                encoder_attention_heads=20,
                decoder_attention_heads=20,
                encoder_ffn_dim=5120,
                decoder_ffn_dim=5120,
                use_cache=False,
                attn_implementation="eager",
            )
            with torch.device("meta"):
                model = WhisperModel(config).eval()
                sound, tokens = torch.empty(1, 128, 3000), torch.zeros(1, 32, dtype=torch.long)
                mask = torch.zeros(1, 1, 32, 32)
            writer.add_structure(name, model, (sound,), {"decoder_input_ids": tokens, "decoder_attention_mask": mask})


PAIRS = {"resnet": log_resnets, "bert": log_berts, "vit": log_vits, "llama": log_llamas, "whisper": log_whispers}
SMALL = ("resnet", "bert")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", type=Path, default=Path("runs/pairs"), help="where the event files go")
    parser.add_argument("--all", action="store_true", help="the large pairs as well")
    arguments = parser.parse_args()
    for run in PAIRS if arguments.all else SMALL:
        PAIRS[run](arguments.logdir / run)


if __name__ == "__main__":
    main()
