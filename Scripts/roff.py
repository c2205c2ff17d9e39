"""Text for man(7): paragraphs of help texts, and the part of Markdown that docs/ uses."""
import re
import textwrap

# man(1) indents by seven of eighty columns, and what is shown as it is by two more.
WIDTH = 71
# mandoc's limit for lines of text.
LINE = 79


def escaped(text):
    """Text that roff writes as it is."""
    text = text.replace("\\", "\\e")
    for character, escape in (("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti"), ("…", "...")):
        text = text.replace(character, escape)
    return text


def bold(text):
    return f"\\fB{escaped(text)}\\fR"


def italic(text):
    return f"\\fI{escaped(text)}\\fR"


# Code, emphasis, paths, links, options, and hyphens within words, at which a line may end.
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<strong>[^*]+)\*\*|(?<![\w*])\*(?P<emphasis>[^*\s][^*]*)\*"
    r"|(?P<path>[\w$~.]*/[\w$~./-]*)|\[(?P<link>(?:[^]`]|`[^`]*`)+)\]\([^)]*\)"
    r"|(?<![\w/-])(?P<option>--?[a-z][\w-]*)|(?<=\w)(?P<hyphen>-)(?=\w)"
)


def inline(text):
    """Text with marks for code and emphasis, and with bold options."""
    parts, start = [], 0
    for match in INLINE.finditer(text):
        # An apostrophe stays one.
        parts.append(escaped(text[start:match.start()]).replace("\\(aq", "'"))
        kind, value = match.lastgroup, match[match.lastgroup]
        if kind in ("code", "strong", "option"):
            parts.append(bold(value.replace("\\|", "|")))
        elif kind == "emphasis":
            parts.append(italic(value))
        elif kind == "path":
            parts.append(escaped(value))
        else:
            parts.append(inline(value) if kind == "link" else "-")
        start = match.end()
    return "".join(parts) + escaped(text[start:]).replace("\\(aq", "'")


def paragraph(text):
    """The lines of a paragraph; a line begins with no character that roff would take as a request."""
    lines = textwrap.wrap(inline(" ".join(text.split())), LINE, break_long_words=False, break_on_hyphens=False)
    return ["\\&" + line if line[0] in ".'" else line for line in lines]


def verbatim(lines):
    """Lines as they are; a longer command goes on in a second line, as a shell reads it: not within quotation marks."""
    result = []
    for line in textwrap.dedent("\n".join(lines)).split("\n"):
        while len(line) > WIDTH:
            marks = [(line.count('"', 0, at) + line.count("'", 0, at)) % 2 for at in range(WIDTH)]
            spaces = [at for at in range(10, WIDTH - 2) if line[at] == " " and not marks[at]]
            if not spaces:
                break
            result.append(line[:spaces[-1]] + " \\")
            line = "    " + line[spaces[-1] + 1:]
        result.append(line)
    return [".PP", ".nf", ".RS 2"] + [("\\&" if line[:1] in (".", "'") else "") + escaped(line) for line in result] + [".RE", ".fi"]


def tidied(lines):
    """The lines without paragraphs that begin where one begins anyway."""
    return [
        line for before, line in zip(["", *lines], lines)
        if line != ".PP" or not before.startswith((".SH", ".SS", ".PP"))
    ]


def item(term, text):
    return [".TP", term, *(paragraph(text) if text else ["\\&"])]


def section(title):
    return [f'.SH "{escaped(title.upper())}"']


def columns(lines):
    """The pairs of a table of terms and texts with one or two pairs a line, column by column; None if it is none."""
    pairs = []
    for number, line in enumerate(lines):
        cells = list(re.finditer(r"\S+(?: \S+)*", line))
        if len(cells) % 2:
            return None
        pairs += [(cell.start(), number, cell[0], text[0]) for cell, text in zip(cells[::2], cells[1::2])]
    return [(term, text) for _, _, term, text in sorted(pairs)]


def help_sections(discussion):
    """The paragraphs of a help text, and its sections by title. A section is a title in capitals and the indented lines below."""
    parts = {"": []}
    title = ""
    for block in re.split(r"\n{2,}", discussion.strip("\n")):
        lines = block.split("\n")
        if re.fullmatch(r"[A-Z][A-Z ]+", lines[0]):
            title = lines.pop(0)
        elif not lines[0].startswith(" "):
            title = ""
        parts.setdefault(title, []).append(lines)
    return {key: help_blocks(key, blocks) for key, blocks in parts.items() if blocks and blocks != [[""]]}


def help_blocks(title, blocks):
    result = []
    for lines in blocks:
        if not title:
            result += [".PP", *paragraph(" ".join(lines))]
        elif title == "EXAMPLES":
            if lines[0].endswith(":"):
                result += [".PP", *paragraph(lines.pop(0))]
            result += verbatim(lines)
        else:
            table = [line for line in lines if re.search(r"\S {2,}\S", line)]
            for term, text in columns(table) or []:
                result += item(bold(term), text)
            for line in lines:
                if line not in table:
                    result += [".PP", *paragraph(line)]
    return result


def markdown(text):
    """The title of a page of docs/, and the rest of it."""
    title, result, code, rows, block = "", [], None, [], []

    def flush():
        nonlocal rows, block
        if rows:
            result.extend(table(rows))
        if block:
            mark = re.match(r"(?:-|\d+\.) ", block[0])
            head = [".IP \\(bu 2"] if mark else [".PP"]
            result.extend(head + paragraph(" ".join(block)[mark.end() if mark else 0:]))
        rows, block = [], []

    for line in text.splitlines():
        if code is not None:
            if line.startswith("```"):
                result.extend(verbatim(code))
                code = None
            else:
                code.append(line)
        elif line.startswith("```"):
            flush()
            code = []
        elif line.startswith("# "):
            title = line[2:]
        elif heading := re.match(r"(##+) (.*)", line):
            flush()
            result.extend(section(heading[2].replace("`", "")) if len(heading[1]) == 2 else [f'.SS "{inline(heading[2])}"'])
        elif line.startswith("|"):
            if block:
                flush()
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
        elif not line.strip() or line.startswith("<!--"):
            flush()
        else:
            if re.match(r"(?:-|\d+\.) ", line) or rows:
                flush()
            block.append(line)
    flush()
    return title, result


def table(rows):
    """A table as a list: its first column is the term, its longest one the text, and the others stand behind the term."""
    head, body = rows[0], [row for row in rows[2:]]
    longest = max(range(1, len(head)), key=lambda column: sum(len(row[column]) for row in body))
    result = []
    for row in body:
        others = "; ".join(row[column] for column in range(1, len(head)) if column != longest and row[column])
        result += item(inline(row[0]) + (f" ({inline(others)})" if others else ""), row[longest])
    return result
