"""The work of a session as one file to hand in, and the files of a class as one page.

`submit` writes what the session did: checks passed, predictions against measurements, busy shares and speed-ups. A
pseudonym stands for the student; in the names of runs and accelerators, what names the account, the host, a folder or
an address is hidden. The file is signed by its content: `read` finds damage and careless edits. It does not find
forgery, because every reader of this code can compute the signature anew. A hand-in is a report; an examination is
``notebooks/assignments/grader``.
"""

from labcourse.handin.document import FORMAT, digest, read
from labcourse.handin.folder import Class, gather
from labcourse.handin.submission import collect, fingerprint, submit

__all__ = ["FORMAT", "Class", "collect", "digest", "fingerprint", "gather", "read", "submit"]
