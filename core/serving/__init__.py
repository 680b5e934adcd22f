"""Serving one network to many visitors: requests, backends, queues and fair sharing."""
