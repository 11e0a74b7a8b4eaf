"""A fixed subset of what ``make coverage`` sweeps over, by the same code: families of every kind of attention."""

import warnings

import pytest
from families.command import typed
from families.compare import examine
from families.configs import tiny_model
from families.depths import told
from families.generating import generates
from families.holes import holes
from families.inputs import inputs_that_run

from attncli.record import Kind

READ_ON_EITHER_SIDE = [
    "albert", "bart", "bert", "bloom", "cohere2", "ctrl", "deberta", "deberta-v2", "deepseek_v3", "deepseek_v32",
    "diffllama", "distilbert", "electra", "ernie", "falcon", "gemma", "gemma2", "gemma3_text", "glm4", "gpt2",
    "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "granite_swa", "hrm_text", "inkling2_text", "jamba", "led",
    "llama", "longformer", "minimax", "minimax_m3_vl_text", "mistral", "modernbert", "mpnet", "mpt", "olmo2", "opt",
    "phi3", "prophetnet", "qwen3", "qwen3_next", "roformer", "squeezebert", "t5", "umt5", "xlm", "xlnet",
]  # fmt: skip
UNPADDED = ["beit", "dinov2", "hubert", "segformer", "vit", "wav2vec2", "whisper"]


@pytest.fixture(autouse=True)
def _quiet():
    """Let a family's own warnings pass: they are not about capture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("family", READ_ON_EITHER_SIDE)
def test_every_weight_equals_eager_with_padding_on_either_side(family: str) -> None:
    outcome = examine(family)
    assert (outcome.status, outcome.sides) == ("right", ["left", "right"]), outcome.why
    assert outcome.compared >= 3


@pytest.mark.parametrize("family", UNPADDED)
def test_every_weight_of_a_vision_or_audio_model_equals_eager(family: str) -> None:
    outcome = examine(family)
    assert outcome.status == "right" and outcome.compared >= 1, outcome.why


@pytest.mark.parametrize(
    ("family", "why"),
    [
        ("canine", "its 3 queries and 3 keys are not the 14 and 14 tokens"),
        ("fnet", "no softmax over the tokens was found in its layers"),
        ("mamba2", "no softmax over the tokens was found in its layers"),
        ("longt5", "no single map from tokens to tokens"),
        ("t5gemma2", "its 9 queries and 23 keys are not the 9 and 9 tokens"),
    ],
)
def test_what_is_no_map_between_tokens_ends_with_one_clear_error(family: str, why: str) -> None:
    outcome = examine(family)
    assert outcome.status == "error" and why in outcome.why


@pytest.mark.parametrize("family", ["bart", "bert", "gpt2", "jamba", "longformer", "vit", "whisper"])
def test_the_command_shows_what_the_library_captures(family: str) -> None:
    assert typed(family, tiny_model(family)) == "right"


@pytest.mark.parametrize(
    "family", ["bamba", "bart", "diffllama", "gemma3_text", "gpt2", "jamba", "qwen3_next", "t5"]
)
def test_what_a_model_writes_is_mapped_as_eager_reads_it(family: str) -> None:
    assert generates(family) == "right"


@pytest.mark.parametrize(
    ("family", "layers", "words"),
    [
        ("bart", {"encoder": [0, 1], "decoder": [0, 1, 2]}, "2 + 3"),
        ("jamba", {"decoder": [1, 3]}, "4"),
        ("vit", {"encoder": [0, 1]}, "2"),
        ("vit", {"encoder": [0, 2]}, "WRONG: encoder layer 2 of 2"),
    ],
)
def test_layers_are_counted_as_the_config_does(
    family: str, layers: dict[Kind, list[int]], words: str
) -> None:
    model = tiny_model(family)
    assert told(model, inputs_that_run(family, model, None)[0], layers) == words


@pytest.mark.parametrize("family", ["bart", "bert", "gpt2", "jamba", "t5", "vit"])
def test_a_checkpoint_without_a_weight_is_refused_or_shows_the_same_maps(family: str) -> None:
    model = tiny_model(family)
    inputs, _ = inputs_that_run(family, model, None)
    assert inputs is not None
    came = holes(model, inputs)
    assert len(came["refused"]) > 5 and not came["silent"] and not came["failed"]
