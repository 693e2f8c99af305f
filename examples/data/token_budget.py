"""Compare batches of sentences with a budget of tokens to batches of a fixed number of sentences.

    python token_budget.py

The last line is the rate. The lengths resemble those of a text, and are known before reading.
"""

import argparse
import time

import numpy as np

from towerpack_dataflow import BatchByBudget, DataFromList, MapData, PadBatchData


def make_lengths(count):
    """Lengths of sentences: most are short, and some long."""
    rng = np.random.default_rng(0)
    return np.clip(rng.lognormal(3, 0.7, count), 1, 500).astype(np.int64)


def padded(sentences):
    """Joins sentences to one array, padded with zeros."""
    tokens = [sentence for (sentence,) in sentences]
    batch = np.zeros((len(tokens), max(map(len, tokens))), np.int32)
    for row, sentence in zip(batch, tokens):
        row[: len(sentence)] = sentence
    return [batch]


def read(name, flow, total):
    """Reads a pass, and prints its rate and its share of padding."""
    begin, batches, size = time.perf_counter(), 0, 0
    for (batch,) in flow:
        batches += 1
        size += batch.size
    rate = total / (time.perf_counter() - begin)
    print(f"{name}: {batches} batches, {1 - total / size:.1%} padding, {rate / 1e6:.2f} million tokens/s")
    return 1 - total / size


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--budget", type=int, default=8192, help="tokens of a batch, padding included")
    parser.add_argument("--window", type=int, default=4096, help="sentences that are sorted together")
    options = parser.parse_args()
    lengths = make_lengths(options.sentences)
    total = int(lengths.sum())
    numbers = DataFromList([[length] for length in lengths.tolist()], shuffle=False)
    sentences = MapData(numbers, lambda datapoint: [np.arange(1, datapoint[0] + 1, dtype=np.int32)])
    fixed = max(1, options.budget // int(np.percentile(lengths, 90)))
    read(f"{fixed} sentences", PadBatchData(sentences, fixed, remainder=True), total)
    flow = BatchByBudget(sentences, lengths, options.budget, options.window, collate=padded)
    read(f"budget of {options.budget} tokens", flow, total)


if __name__ == "__main__":
    main()
