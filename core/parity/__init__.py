"""The parity checklist: the from-scratch model against torch.nn.Transformer."""
