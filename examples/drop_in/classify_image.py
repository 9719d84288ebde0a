"""Classifies a picture with a network for ONNX Runtime: only the import names Matloom.

python classify_image.py net.onnx cat.png --labels labels.txt
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from matloom.compat import onnxruntime as ort  # was: import onnxruntime as ort


def preprocess(path, height, width):
    """Return a picture as float32, channels first, normalised as ImageNet networks want it."""
    picture = Image.open(path).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    data = np.asarray(picture, np.float32) / 255
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    deviation = np.array([0.229, 0.224, 0.225], np.float32)
    return ((data - mean) / deviation).transpose(2, 0, 1)[np.newaxis]


def softmax(values):
    """Return the softmax of a vector."""
    exponentials = np.exp(values - values.max())
    return exponentials / exponentials.sum()


def main():
    """Classify the picture of the command line, and print the most probable classes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("picture")
    parser.add_argument("--labels")
    parser.add_argument("--top", type=int, default=5)
    arguments = parser.parse_args()

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        arguments.model, sess_options=options, providers=["CPUExecutionProvider"]
    )

    (given,) = session.get_inputs()
    batch, channels, height, width = given.shape
    print(f"input {given.name}: {given.type}, {batch} x {channels} x {height} x {width}")
    image = preprocess(arguments.picture, height, width)

    output_name = session.get_outputs()[0].name
    (scores,) = session.run([output_name], {given.name: image})
    probabilities = softmax(scores[0])

    labels = Path(arguments.labels).read_text().splitlines() if arguments.labels else None
    for place in np.argsort(-probabilities)[: arguments.top]:
        label = labels[place] if labels else f"class {place}"
        print(f"{label}: {probabilities[place]:.6f}")


if __name__ == "__main__":
    main()
