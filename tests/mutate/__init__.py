"""Change the code by one small mistake at a time, and list the mistakes that no test notices."""
