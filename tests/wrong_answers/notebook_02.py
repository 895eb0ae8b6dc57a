"""Right shape, wrong idea: what students hand in for notebook 02, and a word of the hint that must come back."""

WRONG = {
    "02.1": [
        (lambda dataset: dataset, "last step"),
        (lambda dataset: dataset.prefetch(-1), "two"),
        (lambda dataset: dataset.prefetch(2).map(lambda x: x), "last step"),
        (lambda dataset: dataset.unbatch().prefetch(2), "batches changed"),
        (lambda dataset: dataset.skip(1).prefetch(2), "batches changed"),
    ],
    "02.2": [
        (lambda load, train: 2, "best case"),
        (lambda load, train: max(load, train) / (load + train), "inverse"),
        (lambda load, train: (load + train) / min(load, train), "slower"),
    ],
    "02.3": [
        (lambda depth, batch, height, width: depth * batch * height * width * 3 / 1e6, "four"),
        (lambda depth, batch, height, width: depth * batch * height * width * 4 / 1e6, "three"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12, "bytes"),
        (lambda depth, batch, height, width: depth * batch * height * width * 12 / 2**20, "MiB"),
    ],
}
