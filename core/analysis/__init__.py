"""Questions asked of records, one a file: records in, numpy out; no network and no screen."""
