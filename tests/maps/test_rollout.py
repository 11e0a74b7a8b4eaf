from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

from attncli.maps.rollout import Rule, flow, rollout
from attncli.models.pretrained import open_model

TEXT = "the animal was too tired it did cross ."


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return tiny.write_llama(tmp_path_factory.mktemp("llama"))


def _eager(folder: Path) -> np.ndarray:
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        given = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt", return_token_type_ids=False)
        return torch.stack(model(**given, output_attentions=True).attentions)[:, 0].double().numpy()


def _by_hand(weights: np.ndarray, fuse, residual: float, discard: float = 0.0) -> list[np.ndarray]:
    """Rollout as its paper has it, from the first layer up; the states from the last layer down."""
    made = []
    for layer in weights:
        fused = fuse(layer, axis=0)
        if discard:
            flat = fused.flatten()
            lowest = np.argsort(flat)[: int(len(flat) * discard)]
            flat[lowest[lowest != 0]] = 0
            fused = flat.reshape(fused.shape)
        matrix = residual * np.eye(len(fused)) + (1 - residual) * fused
        made.append(matrix / matrix.sum(axis=1, keepdims=True))
    states, product = [], np.eye(len(made[0]))
    for matrix in reversed(made):
        product = product @ matrix
        states.append(product)
    return states


@pytest.mark.parametrize("room", [2**30, 1])
@pytest.mark.parametrize(
    ("rule", "fuse"),
    [(Rule(), np.mean), (Rule("max", 0.3), np.max), (Rule("min", 0.5, 0.4), np.min)],
)
def test_rollout_is_the_papers_product_however_many_passes_it_takes(
    llama, rule: Rule, fuse, room: int
) -> None:
    source = open_model(str(llama), TEXT)
    length = len(source.axes("decoder")[0])
    rows = [2, length - 1]
    layers, states, _ = rollout(source, "decoder", 3, rows, length, rule, room=room)
    want = _by_hand(_eager(llama), fuse, rule.residual, rule.discard)
    assert layers == [2, 1, 0]
    for state, whole in zip(states.numpy(), want, strict=True):
        assert state == pytest.approx(whole[rows], abs=1e-6)
    assert states[-1].sum(dim=-1).tolist() == pytest.approx([1, 1], abs=1e-6)
    assert not states[-1][0, 3:].any()  # a causal row sees no future


def test_flow_is_what_the_narrowest_layer_lets_through(llama) -> None:
    source = open_model(str(llama), TEXT)
    length = len(source.axes("decoder")[0])
    layers, found, _ = flow(source, "decoder", 3, [1], length, Rule())
    # Two positions: what reaches position 1 from 1 passes 1→1 in all layers; from 0 it may come in at each of them.
    made = [0.5 * np.eye(length) + 0.5 * layer.mean(axis=0) for layer in _eager(llama)][::-1]
    stay = min(matrix[1, 1] for matrix in made)
    limits = [made[0][1, 0], made[0][1, 1]]
    second = [min(limits[1], made[1][1, 0]), min(limits[1], made[1][1, 1])]
    from_0 = limits[0] + second[0] + min(limits[1] - second[0], made[1][1, 1], made[2][1, 0])
    total = from_0 + stay
    assert len(layers) == 3
    assert found[0, :2].tolist() == pytest.approx([from_0 / total, stay / total], abs=1e-6)


def test_the_command_shows_rollout_and_follows_one_position_down(cli, llama) -> None:
    weights = _by_hand(_eager(llama), np.mean, 0.5)
    document = cli("show", TEXT, "-m", str(llama), "--aggregate", "rollout", "--json").json
    assert np.array(document["attention"][0]["weights"]) == pytest.approx(weights[-1], abs=1e-6)
    assert any("what values carry" in note for note in document["notes"])
    down = cli("show", TEXT, "-m", str(llama), "--aggregate", "rollout", "--from", "tired", "--json").json
    row = TEXT.split().index("tired")
    assert np.array(down["attention"][0]["weights"]) == pytest.approx(
        np.stack([one[row] for one in weights]), abs=1e-6
    )
    assert [token["text"] for token in down["query_tokens"]] == ["layer 2", "layers 1–2", "layers 0–2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--aggregate", "rolout"), 'did you mean "rollout"?'),
        (("--aggregate", "rollout", "--layer", "1"), "--aggregate and --layer were both given"),
        (("--fuse", "max"), "--fuse needs --aggregate"),
        (("--aggregate", "flow", "--from", "it"), "--from follows one output position by rollout"),
    ],
)
def test_what_does_not_go_with_all_layers_is_refused(cli, llama, arguments, said: str) -> None:
    found = cli("show", TEXT, "-m", str(llama), *arguments)
    assert found.code == 2 and said in found.err


def test_rollout_of_a_picture_is_laid_over_it(cli, tmp_path) -> None:
    from PIL import Image

    folder = tiny.write_vit(tmp_path / "vit")
    Image.effect_noise((32, 32), 60).convert("RGB").save(tmp_path / "photo.png")
    given = ("show", str(tmp_path / "photo.png"), "-m", str(folder), "--aggregate", "rollout")
    assert cli(*given, "--query", "0", "-o", str(tmp_path / "map.png")).code == 0
    document = cli(*given, "--json").json
    values = np.array(document["attention"][0]["weights"])
    assert values.sum(axis=1) == pytest.approx(np.ones(len(values)), abs=1e-5)


@pytest.mark.parametrize(("fuse", "discard"), [("mean", 0.0), ("max", 0.0), ("mean", 0.9), ("max", 0.9)])
def test_rollout_of_a_picture_follows_vit_explains_rule(cli, tmp_path, fuse: str, discard: float) -> None:
    """(fused + I) / 2, rows scaled to sum to 1, multiplied from the first layer up; small weights set to 0 before."""
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModel

    folder = tiny.write_vit(tmp_path / "dinov2", "dinov2")
    Image.effect_noise((32, 32), 60).convert("RGB").save(tmp_path / "photo.png")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        given = AutoImageProcessor.from_pretrained(folder)(
            Image.open(tmp_path / "photo.png"), return_tensors="pt"
        )
        layers = model(**given, output_attentions=True).attentions
    result = torch.eye(layers[0].shape[-1], dtype=torch.float64)
    for layer in layers:
        fused = (layer.mean(dim=1) if fuse == "mean" else layer.amax(dim=1)).double()
        flat = fused.view(1, -1)
        _, smallest = flat.topk(int(flat.shape[-1] * discard), -1, largest=False)
        flat[0, smallest[smallest != 0]] = 0
        both = (fused + torch.eye(fused.shape[-1])) / 2
        result = (both / both.sum(dim=-1, keepdim=True)) @ result
    options = ("--aggregate", "rollout", "--fuse", fuse, "--discard", str(discard), "--json")
    found = cli("show", str(tmp_path / "photo.png"), "-m", str(folder), *options).json["attention"][0][
        "weights"
    ]
    assert np.array(found) == pytest.approx(result[0].numpy(), abs=1e-6)
