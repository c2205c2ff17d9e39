"""The commands of reachability-watch as its two programs describe them (swift-argument-parser's --experimental-dump-help).

The program `reachability-watch` knows the commands of `reachability-service` by name; the latter knows the rest of them.
"""
import json
import subprocess


class Argument:
    """An option, a flag or a positional argument."""

    def __init__(self, info):
        self.kind = info["kind"]
        dashes = {"long": "--", "short": "-", "longWithSingleDash": "-"}
        self.names = [dashes[name["kind"]] + name["name"] for name in info.get("names", [])]
        self.value = info.get("valueName", "")
        self.default = info.get("defaultValue")
        self.values = info.get("allValues", [])
        self.is_optional = info["isOptional"]
        self.is_repeating = info["isRepeating"]
        self.is_behind = info["parsingStrategy"] == "postTerminator"
        self.help = " ".join(info.get("abstract", "").split())
        # How a shell completes the value: list, file, directory or custom.
        self.completion, self.candidates = None, []
        # The command that the program is asked for, if it completes the value.
        self.asked = ()
        for name, details in (info.get("completionKind") or {}).items():
            if name not in ("list", "file", "directory", "custom"):
                raise ValueError(f"{self.names or self.value}: completions of the kind {name} are not known here")
            self.completion, self.candidates = name, details.get("values", [])

    @property
    def has_value(self):
        return self.kind != "flag"

    @property
    def key(self):
        """What makes two options of different commands the same one."""
        return (tuple(self.names), self.value, self.help, self.default, tuple(self.values))


class Command:
    """A command with its path of names, without that of the program."""

    def __init__(self, info, path=()):
        self.path = path
        # Whether it has a manual of its own: the commands of reachability-service.
        self.has_page = False
        self.abstract = info.get("abstract", "")
        self.discussion = info.get("discussion", "")
        shown = [Argument(each) for each in info.get("arguments", []) if each["shouldDisplay"]]
        self.options = [each for each in shown if each.kind != "positional"]
        self.positionals = [each for each in shown if each.kind == "positional"]
        self.commands = [
            Command(each, (*path, each["commandName"]))
            for each in info.get("subcommands", [])
            if each["shouldDisplay"] and each["commandName"] != "help"
        ]
        self.default = next((each for each in self.commands if each.name == info.get("defaultSubcommand")), None)

    @property
    def name(self):
        return self.path[-1] if self.path else "reachability-watch"

    @property
    def full_name(self):
        return " ".join(("reachability-watch", *self.path))

    @property
    def runs_command(self):
        """Whether another command follows behind --."""
        return any(each.is_behind for each in self.positionals)

    @property
    def all(self):
        """The command and all below it."""
        return [self] + [below for each in self.commands for below in each.all]


def read(watch, service):
    """The root of the commands of two programs."""
    def described(program):
        result = subprocess.run([program, "--experimental-dump-help"], check=True, stdout=subprocess.PIPE)
        return Command(json.loads(result.stdout)["command"])

    root, other = described(watch), described(service)
    known = {each.name: each for each in other.commands}
    unreachable = known.keys() - {each.name for each in root.commands}
    if unreachable:
        raise ValueError(f"reachability-watch does not know {', '.join(unreachable)} of reachability-service")
    root.commands = [known.get(each.name, each) for each in root.commands]
    for each in known.values():
        each.has_page = True
    # What is the same in several commands is asked of the first one.
    first = {}
    for command in root.all:
        for each in command.options + command.positionals:
            each.asked = first.setdefault(each.key, command.path)
    return root
