"""`python -m flambeau`: the compiler's answers at a shell prompt.

In: a command line. Out: text or, with `--json`, one JSON value; and an exit status. One module per command; each gives an
`Answer` (plain facts, their text, the status), so text and JSON tell the same. Nothing else imports this package.
"""
