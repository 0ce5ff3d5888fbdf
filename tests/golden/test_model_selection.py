"""The epoch that is kept is the best of a curve that was recorded by hand."""

import numpy as np
import pytest
import torch

import tcsl
from tcsl.data.convert import as_dataset
from tcsl.training.checkpoint import load_tensors, under_prefix
from tcsl.training.nets import build_net

EPOCHS = 8
QUICK = {
    "train.epochs": EPOCHS,
    "train.batch_size": 16,
    "train.lr": 0.2,  # so high that the curves go up and down
    "score.biased_epochs": 1,
    "device.threads": 1,
}


def rows(n, seed, alpha):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    attribute = np.where(rng.random(n) < alpha, y, rng.integers(0, 3, n))
    X = rng.normal(size=(n, 4)) + np.stack([3 * attribute, y, 2 * (y == 1), 0 * y], 1)
    return X.astype(np.float32), y, attribute


X, Y, A = rows(150, 0, 0.8)
X_VAL, Y_VAL, A_VAL = rows(90, 1, 0.5)
VAL = {"val": (X_VAL, Y_VAL), "groups": A, "val_groups": A_VAL}


def predictions(net):
    with torch.no_grad():
        return net(torch.from_numpy(X_VAL)).argmax(1).tolist()


def accuracies(predicted, parts):
    """Return the accuracy on each part that occurs, by counting."""
    right, size = {}, {}
    for p, y, part in zip(predicted, Y_VAL.tolist(), parts, strict=True):
        size[part] = size.get(part, 0) + 1
        right[part] = right.get(part, 0) + (p == y)
    return [right[part] / size[part] for part in size]


def by_hand(criterion, predicted, biased):
    labels = Y_VAL.tolist()
    if criterion == "worst_class":
        return min(accuracies(predicted, labels))
    if criterion == "worst_group":
        return min(accuracies(predicted, list(zip(labels, A_VAL.tolist(), strict=True))))
    cells = accuracies(predicted, [(y, b == y) for y, b in zip(labels, biased, strict=True)])
    return sum(cells) / len(cells)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The models after 1, 2, ... epochs, from trainings that end there: an epoch does not depend on how many follow."""
    folder = tmp_path_factory.mktemp("recorded")
    models = []
    for epochs in range(1, EPOCHS + 1):
        settings = {**QUICK, "train.epochs": epochs}
        models.append(tcsl.debias((X, Y), methods=["cb_erm"], settings=settings, out=folder / str(epochs)).models)
    tcsl.score((X, Y), settings=QUICK, out=folder / "scores")
    biased = build_net("mlp", as_dataset((X, Y)), seed=0)
    tensors, _ = load_tensors(folder / "scores" / "checkpoints" / "biased.safetensors")
    biased.load_state_dict(under_prefix("net.", tensors))
    return [one["cb_erm"] for one in models], predictions(biased.eval())


@pytest.mark.parametrize("criterion", ["worst_class", "worst_group", "balanced_by_bias"])
def test_the_best_epoch_is_kept(criterion, recorded, tmp_path):
    models, biased = recorded
    curve = [by_hand(criterion, predictions(net), biased) for net in models]
    best = curve.index(max(curve))
    assert 0 < best < EPOCHS - 1  # neither the first nor the last
    seen = []
    settings = {**QUICK, "train.model_selection": criterion}
    run = tcsl.debias((X, Y), methods=["cb_erm"], settings=settings, out=tmp_path / "run", report=seen.append, **VAL)
    judged = [epoch.judged for epoch in seen if epoch.stage == "cb_erm"]
    assert judged == pytest.approx(curve, abs=1e-12)
    assert run.result["models"]["cb_erm"] == {
        "by": criterion,
        "on": "validation data",
        "epoch": best + 1,
        "epochs": EPOCHS,
        "value": pytest.approx(curve[best], abs=1e-12),
    }
    for kept, expected in zip(run.models["cb_erm"].parameters(), models[best].parameters(), strict=True):
        assert torch.equal(kept, expected)
