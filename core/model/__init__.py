"""The Transformer, from scratch and as torch.nn.Transformer, behind one interface."""
