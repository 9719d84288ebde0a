"""Programs of torch.export as ONNX models, without torch: what it needs is read off the object."""
