"""The grader of the problem sets: a tool of a checkout, which the installed package does not carry.

`batch` turns a folder of submissions into one table; `course` is nbgrader's part.
"""
