import CommandKit
import Reachability

extension ReportContent {
    /// Returns the report as text for a terminal.
    func text(_ style: TextStyle) -> String {
        var lines = [style.strong("Reachability") + "  \(periodText), times in \(zone)"]
        if let overview { lines += [""] + Self.lines(overview, style).map { "  \($0)" } }
        for section in sections { lines += [""] + Self.lines(section, style) }
        lines += ["", style.dimmed(Self.rules)]
        return lines.map { (style.hasUnicode ? $0 : Self.plain($0)) + "\n" }.joined()
    }

    private static func lines(_ section: Section, _ style: TextStyle) -> [String] {
        let scope = style.strong(ForeignText(section.summary.scope).terminal)
        let isKnown = section.summary.availability != nil
        let share = isKnown ? "\(section.availability) online" : section.availability
        var lines = ["\(scope): \(style.signed(share, isKnown ? .satisfied : .unknown))"]
        lines.append("  " + section.facts.map(\.phrase).joined(separator: ", "))
        for table in [section.outages] + section.sums {
            lines += ["", "  " + style.strong(table.title)]
            lines += table.rows.isEmpty ? ["    none"] : self.lines(table, style).map { "    " + $0 }
        }
        if !section.remarks.isEmpty { lines += [""] + section.remarks.map { "  \($0)" } }
        return lines
    }

    private static func lines(_ table: Table, _ style: TextStyle) -> [String] {
        let rows = table.rows.map { $0.map(text) }
        let widths = table.columns.indices.map { column in
            max(table.columns[column].count, rows.map { $0[column].count }.max() ?? 0)
        }
        func line(_ cells: [String]) -> String {
            let padded = cells.enumerated().map { column, text in
                let padding = String(repeating: " ", count: widths[column] - text.count)
                return table.numeric.contains(column) ? padding + text : text + padding
            }
            let line = padded.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
        return [style.dimmed(line(table.columns))] + rows.map(line)
    }

    private static func text(_ cell: Cell) -> String {
        let text = cell.isForeign ? ForeignText(cell.text).terminal : cell.text
        guard let detail = cell.detail, !detail.isEmpty else { return text }
        return "\(text) (\(ForeignText(detail).terminal))"
    }

    /// Returns a line without the signs beyond ASCII that reports use.
    private static func plain(_ line: String) -> String {
        line.replacing("\u{2265}", with: ">=").replacing("–", with: "-").replacing("…", with: "...")
    }
}

extension ReportContent {
    /// Returns the report as Markdown (GitHub Flavored Markdown, for its tables).
    var markdown: String {
        var blocks = ["# Reachability", "\(periodText), times in \(zone)."]
        if let overview { blocks.append(Self.markdown(overview)) }
        for section in sections { blocks += Self.blocks(section) }
        blocks.append(Self.rules)
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private static func blocks(_ section: Section) -> [String] {
        let facts = [Fact(name: "Available", value: "**\(section.availability)**")] + section.facts
        let cells = facts.map { fact in Cell(fact.value + (fact.detail.map { " (\($0))" } ?? "")) }
        let sums = Table(title: "", columns: facts.map(\.name), numeric: Set(facts.indices), rows: [cells])
        var blocks = ["## \(code(section.summary.scope))", markdown(sums)]
        for table in [section.outages] + section.sums {
            blocks += ["### \(table.title)", table.rows.isEmpty ? "None." : markdown(table)]
        }
        return blocks + section.remarks
    }

    private static func markdown(_ table: Table) -> String {
        func line(_ cells: [String]) -> String { "| \(cells.joined(separator: " | ")) |" }
        let rule = table.columns.indices.map { table.numeric.contains($0) ? "---:" : "---" }
        return ([line(table.columns), line(rule)] + table.rows.map { line($0.map(markdown)) }).joined(separator: "\n")
    }

    private static func markdown(_ cell: Cell) -> String {
        let text = cell.isForeign ? code(cell.text) : cell.text
        guard let detail = cell.detail, !detail.isEmpty else { return text }
        return "\(text) (\(code(detail)))"
    }

    /// Returns text from outside as a code span, in which nothing is markup (CommonMark 0.31.2 §6.1, GFM §4.10 for the bars).
    private static func code(_ text: String) -> String {
        let text = ForeignText(text).terminal.replacing("|", with: "\\|")
        var (longest, run) = (0, 0)
        for character in text {
            run = character == "`" ? run + 1 : 0
            longest = max(longest, run)
        }
        let fence = String(repeating: "`", count: longest + 1)
        // Without the spaces, a backtick at an end would be part of the fence.
        let space = text.hasPrefix("`") || text.hasSuffix("`") || text.isEmpty ? " " : ""
        return fence + space + text + space + fence
    }
}
