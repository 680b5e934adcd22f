"""The parts of the lesson on masks: a batch, one row's softmax, and what happens without them."""
