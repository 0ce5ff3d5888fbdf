"""Frozen features in place of images, for benchmarks/reproduce.py --frozen: a linear head is all that is trained."""

from tcsl.data.dataset import make_dataset
from tcsl.embeddings import embed
from tcsl.training.feed import Feed
from tcsl.training.nets import build_net


def name_of(net):
    """Return a net's name as it stands in names of files."""
    return net.rpartition(":")[2]


def frozen(splits, net, weights, hardware):
    """Return the splits with the inputs of the net's last layer in place of the images."""
    made = build_net(net, splits.train, seed=0, weights=weights)

    def features(data):
        if data is None:
            return None
        rows = embed(made, Feed.of(data, hardware))
        known = {"class_names": data.class_names, "ids": data.ids, "groups": data.groups, "name": data.name}
        return make_dataset(rows, data.labels, **known, test=data is not splits.train)

    return type(splits)(*map(features, splits))
