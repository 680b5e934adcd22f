"""Serving networks to many visitors: requests, backends, queues and fair sharing."""
