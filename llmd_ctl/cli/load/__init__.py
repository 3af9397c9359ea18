"""`llmd-ctl load`: seeded traffic at a stated rate, and a raw log of what came back.

    traffic    the requests and the moments they start, from a seed; no I/O
    client     HTTP/1.1 and server-sent events over asyncio, cheap enough for one core
    run        open loop: start each request at its moment, write a log line at its end
    summary    counts and percentiles of a log
    verb       the command

`cli.demo` runs it as a process of its own, so that drawing a table never delays a measurement.
"""
