"""`llmd-ctl demo`: the whole main job on this machine, on four simulated accelerators.

    verb       the command          script     what happens, in order
    sandbox    a private state folder, and the promise that nothing is left running
    traffic    `llmd-ctl load` as a process, and the engine that is killed in its middle
    numbers    what a run did, from its logs alone
    spans      a receiver of spans, and one trace as a tree; protobuf: their wire format
    view       the summary for people      fleet.yaml    the fleet

It uses the verbs' own parts, as a user would, and has no way of its own to plan, apply or route.
"""
