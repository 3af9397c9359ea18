"""The command line: `llmd-ctl VERB …`. Each verb is a file and reads as a script.

    app        all verbs, by name          boundary   errors to text and exit codes
    output     the only door to stdout and stderr      progress   what is under way
    validate plan render diff apply status delete controller router   verbs
    load/ demo/  verbs with parts of their own
    output_folder  what `render` writes into, and what there is ours
    document   the JSON documents the verbs share; schema/*.json describes each of them

Called by the console script. Heavy imports are inside the verbs: help and completion must be
instant, and a plan of fifty models must not wait for an HTTP client it never uses.
"""

import os
import sys

# Objects made between two looks for garbage. Starting and planning make hundreds of thousands that
# stay; at Python's own 700 one fifteenth of a short command goes into looking at them again.
FEW_COLLECTIONS = 50_000
# Verbs that start no engine, whose environment it would be. Pydantic looks for plugins in what is
# said of every installed package, which beside an engine are hundreds; nothing here has any.
STARTS_NOTHING = frozenset({"validate", "plan", "render", "diff", "explain"})
NO_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
AGAIN_SECONDS = 0.05  # until a lost Ctrl-C is asked for again: the callback that lost it is over


def main() -> None:
    """Run the command line and exit with its code."""
    import gc

    gc.set_threshold(FEW_COLLECTIONS)
    if STARTS_NOTHING.intersection(sys.argv[1:2]):
        os.environ.setdefault(NO_PLUGINS, "__all__")
    sys.unraisablehook = interrupt_again
    try:
        from llmd_ctl.cli.boundary import report_bug, run
        from llmd_ctl.cli.output import prepare

        prepare()
        sys.excepthook = report_bug
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted before anything was changed.\n")
        code = 130
    gc.freeze()  # the process ends: nothing is looked at once more before that
    sys.exit(code)


def interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Ask again for a Ctrl-C that Python lost: one that came in a callback of its own."""
    import signal
    from threading import Timer, main_thread

    if lost.exc_type is KeyboardInterrupt:
        again = (main_thread().ident, signal.SIGINT)
        Timer(AGAIN_SECONDS, signal.pthread_kill, again).start()
    else:
        sys.__unraisablehook__(lost)
