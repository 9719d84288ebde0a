"""Spots keywords in windows of features with a network for LiteRT: only the import names Matloom.

    python spot_keyword.py kws.tflite features.npy

`features.npy` has a window of features (MFCC or log-mel, as the network was trained on) a row.
"""

import argparse

import numpy as np

from matloom.compat.litert import Interpreter  # was: from ai_edge_litert.interpreter import ...

WORDS = [
    "down",
    "go",
    "left",
    "no",
    "off",
    "on",
    "right",
    "stop",
    "up",
    "yes",
    "silence",
    "unknown",
]


def main():
    """Print the word that a model finds in each window of features."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("features")
    parser.add_argument("--threshold", type=float, default=0.5)
    arguments = parser.parse_args()

    interpreter = Interpreter(model_path=arguments.model, num_threads=2)
    interpreter.allocate_tensors()
    (source,) = interpreter.get_input_details()
    (result,) = interpreter.get_output_details()

    for at, window in enumerate(np.load(arguments.features)):
        data = window.reshape(source["shape"])
        if source["dtype"] == np.int8 and data.dtype != np.int8:
            scale, zero_point = source["quantization"]
            data = np.clip(np.round(data / scale) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(source["index"], data)
        interpreter.invoke()

        scores = interpreter.get_tensor(result["index"])[0]
        if result["dtype"] == np.int8:
            scale, zero_point = result["quantization"]
            scores = scale * (scores.astype(np.int32) - zero_point)
        best = int(np.argmax(scores))
        word = WORDS[best] if scores[best] >= arguments.threshold else "nothing"
        print(f"window {at}: {word}, class {best} with {scores[best]:.4f}")


if __name__ == "__main__":
    main()
