"""For teachers: a plan of stops, its link, and the files made from it."""
