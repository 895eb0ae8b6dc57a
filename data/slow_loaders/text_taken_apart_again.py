"""Texts are taken apart into tokens in each epoch, in the thread that trains.

Source: own, as in many examples of text
Cause: prep or batch: tokens are made again and again
Remedy: tokenise once before the training, and store the ids
Never: a decoder, smaller images, uint8 (ids are no pixels)
"""

import json
import re

import numpy as np
from _draw import Draw
from _places import Places, loader

SHAPES = ("words in the dataset", "words in the collate", "lines of JSON")
STEP_MS = 6
CAUSE = {"prep", "batch"}
OP = r"__getitem__|collate"
SAYS = r"once"
NEVER = r"decoder|smaller images|uint8|chunks"
ADVICE = {r"once": True, r"num_workers": "workers"}
WORD = re.compile(r"[a-z]+[0-9]+|\S")


def make(folder, seed, fixed=False):
    """Return batches of ids; `fixed` has made them before."""
    draw = Draw(__file__, folder, seed, SHAPES)
    texts = [draw.words(draw.choice([1500, 2000]), 3000) for _ in range(96)]
    if draw.shape == "lines of JSON":
        texts = [json.dumps([{"word": word} for word in text.split()]) for text in texts]

    def ids(text):
        if draw.shape == "lines of JSON":
            found = [entry["word"] for entry in json.loads(text)]
        else:
            found = re.findall(WORD, text)
        return np.array([int(word[1:]) for word in found[:1500]])

    def collated(some):
        import torch

        return torch.from_numpy(np.stack([ids(text) for text in some]))

    workers = 2 if fixed == "workers" else 0
    if fixed is True:
        made = [ids(text) for text in texts]
        return loader(Places(1536, lambda place: made[place % 96]), batch_size=16)
    if draw.shape == "words in the collate":
        data = Places(1536, lambda place: texts[place % 96])
        return loader(data, batch_size=16, collate_fn=collated, num_workers=workers)
    return loader(Places(1536, lambda place: ids(texts[place % 96])), batch_size=16, num_workers=workers)
