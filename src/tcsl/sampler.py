"""The scikit-learn way in: a sampler in the style of imbalanced-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_random_state, validate_data

from tcsl.api import score
from tcsl.data.dataset import make_dataset
from tcsl.selection.coreset import select
from tcsl.selection.quota import Ratio, check_quota
from tcsl.types import AnyArray, FloatArray, IntArray


class TCSLSampler(BaseEstimator):  # type: ignore[misc]
    """Keep the debiased part of a dataset: TCSL scores, then guided coreset selection.

    Parameters
    ----------
    ratio : the part that is kept, floor(ratio n) samples, or "auto": three times G_high
    epochs : T, 50 by default; the biased model is trained for 3 % of it, at least 5 epochs and 225 steps
    net : a name, or a factory from the number of classes to a module; a small MLP by default
    profile : "default" or "paper"
    settings : overrides with dotted names, such as {"train.lr": 0.001}
    random_state : int, RandomState or None

    Attributes
    ----------
    sample_indices_ : (k,) the samples that are kept, ascending
    tcsl_s_, tcsl_c_ : (n,) the scores
    g_high_ : (n,) whether a sample contradicts the shortcut
    classes_ : the class labels
    n_features_in_ : number of features

    >>> X, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50) % 2
    >>> X_kept, y_kept = TCSLSampler(ratio=0.2, epochs=10, random_state=0).fit_resample(X, y)
    >>> X_kept.shape
    (10, 4)
    """

    sample_indices_: IntArray
    tcsl_s_: FloatArray
    tcsl_c_: FloatArray

    def __init__(
        self,
        ratio: Ratio = 0.1,
        *,
        epochs: int | None = None,
        net: Any = None,
        profile: str | None = None,
        settings: Any = None,
        random_state: Any = None,
    ) -> None:
        self.ratio = ratio
        self.epochs = epochs
        self.net = net
        self.profile = profile
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: AnyArray, y: AnyArray) -> TCSLSampler:
        """Score the samples (n, features) with labels (n,) and choose the coreset."""
        import torch

        X, y = validate_data(self, X, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, encoded = np.unique(y, return_inverse=True)
        data = make_dataset(torch.from_numpy(X), torch.from_numpy(encoded.astype(np.int64)), name="X, y")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        check_quota(self.ratio, len(X))
        overrides = dict(self.settings or {}) | ({} if self.epochs is None else {"train.epochs": self.epochs})
        scores = score(data, net=self.net, profile=self.profile, settings=overrides, seed=seed)
        coreset = select(scores, ratio=self.ratio, profile=self.profile, settings=overrides, seed=seed)
        self.sample_indices_ = coreset.indices
        self.tcsl_s_, self.tcsl_c_, self.g_high_ = scores.tcsl_s, scores.tcsl_c, scores.g_high
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the samples and labels that are kept, of the same type as they came; lists as arrays."""
        self.fit(X, y)
        return _take(X, self.sample_indices_), _take(y, self.sample_indices_)


def _take(values: Any, indices: IntArray) -> Any:
    """Index rows of an array, a list or a table."""
    if hasattr(values, "iloc"):
        return values.iloc[indices]
    if type(values).__module__.partition(".")[0] == "polars":
        return values[indices]
    return np.asarray(values)[indices]
