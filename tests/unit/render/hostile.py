"""Words that every format has to give back as they are, however it quotes and expands."""

import json

ODD = (
    "", " ", "two words", "'", '"', "it's", '"double"', "$", "$$", "$HOME", "$(HOME)", "${HOME}",
    "$$(HOME)", "%", "%%", "%n %i %h", "{{ .Values.x }}", "{% x %}", "a\nb", "\n", "a\tb", "\\",
    "\\n", "\\\\", "a\\", ";", "; true", "&", "|", ">", "#", "# no", "a # b", "*", "?", "~", "!",
    "`true`", "-", "--", "--flag=x y", "=", "a=b", "=x", "ünïcödé ✓", "\u2028", "\x01", "\x7f",
    "@x", "+x", ":x", "\\x41", "null", "0x1", "0o7", "0b1", "1e3", "1.5e-3", "1_0",
    "12:30", "2001-01-01", ".5", ".inf", "~", "<<", "y", "yes", "on", "- a", "a: b", "[a]",
    "&a", "*a", "!a",
)  # fmt: skip
WORDS = (*ODD, json.dumps({"a b": ["$x", "%y", "it's", "\\", "{{z}}", "é"]}), *("--end",))
ENV = {f"ODD_{number}": word for number, word in enumerate(WORDS)}
