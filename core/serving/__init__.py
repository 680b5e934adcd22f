"""Many visitors and one network: requests, where they are answered, and the line they wait in."""
