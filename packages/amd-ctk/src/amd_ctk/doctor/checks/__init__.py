"""The checks: one module each, found by being here. Its name, with dashes, is the check's id.

A check has `WHY`, what happens to containers otherwise; `PLACE`, the page that says more; and `check(facts)`, which
returns a Finding, or None where it has nothing to say about such a host. One that is about an engine has its name in
`ENGINE`.
"""
