"""Writes expected.json: what jinja2 makes of every template and conversation here, set up as transformers does it.

Usage: python3 render.py (jinja2 3.1)
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 7, 30, 12, 0, 0)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant says, for training. It is rendered as it stands."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, template, variables):
    """The text, or null where jinja2 raises."""
    try:
        return env.from_string(template).render(**variables)
    except Exception:
        return None


def main():
    env = environment()
    conversations = json.loads((HERE / "conversations.json").read_text())
    expected = {}
    for path in sorted(HERE.glob("*.jinja")):
        expected[path.name] = {}
        for name, given in conversations.items():
            variables = {
                "tools": None,
                "documents": None,
                "add_generation_prompt": True,
                "bos_token": "<s>",
                "eos_token": "</s>",
                **given,
            }
            expected[path.name][name] = render(env, path.read_text(), variables)
    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
