"""`explain`: what a field, flag, accelerator, engine, model, rule or error code is.

    verb     the command;  ask: from its words to a page, and what a wrong word is near to
    page     what a page says: records, and their document;  view: a page for people
    leaves   any profile's figures as facts, each with its source;  figure: a figure in words
    accelerator engine flag model rule   a page each, from profiles and rules
    field    a key of the fleet file, from the types and (reference) the annotated file
    gaps     what targets and routers cannot carry out of a key
    effective  what holds in a fleet, and who set it;  levels: who says it there;  case: a variant

The pages under `docs/reference/` are made from these by `ci/reference.py`. Everything but `verb` is
pure: it gets profiles, a loaded fleet and its plan, and reads no file of a user's.
"""
