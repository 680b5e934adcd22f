"""The checklist against torch.nn.Transformer, line by line."""
