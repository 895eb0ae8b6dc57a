"""A class of students, made by code: what each handed in, and what it must be worth, to the point."""
