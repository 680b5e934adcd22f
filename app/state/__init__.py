"""All that outlives a run of a page: models, results, one visit, the address."""
