import CProcess
package import Reachability

/// A line in parts, some of them in the colour of a status; it knows the columns that it takes on a terminal.
package struct StyledText: Hashable, Sendable {
    /// Characters with one appearance.
    package struct Part: Hashable, Sendable {
        package var text: String
        /// The status in whose colour the text appears; `nil` for the terminal's own colour.
        package var status: NetworkPath.Status?

        package init(_ text: String, _ status: NetworkPath.Status? = nil) { (self.text, self.status) = (text, status) }
    }

    /// The parts as a terminal shows them.
    package private(set) var parts: [Part]

    /// Creates a line of texts, which may be foreign (``ForeignText/terminal``).
    package init(_ parts: [Part]) { self.parts = parts.map { Part(ForeignText($0.text).terminal, $0.status) } }

    /// Creates a line of one part without colour.
    package init(_ text: String) { self.init([Part(text)]) }

    /// The characters without their colours.
    package var plain: String { parts.map(\.text).joined() }

    /// The number of columns on a terminal.
    package var columns: Int { parts.reduce(0) { $0 + Self.columns(of: $1.text) } }

    /// Returns the line with a number of columns at most; the end of a longer one is replaced by `…`, or by `...` in ASCII.
    package func fitted(to columns: Int, _ style: TextStyle) -> StyledText {
        guard self.columns > columns else { return self }
        let mark = String((style.hasUnicode ? "…" : "...").prefix(max(0, columns)))
        var fitted = StyledText([])
        var left = columns - mark.count
        for part in parts {
            let text = part.text.prefix { character in
                left -= Self.columns(of: String(character))
                return left >= 0
            }
            if !text.isEmpty { fitted.parts.append(Part(String(text), part.status)) }
            if left < 0 { break }
        }
        fitted.parts.append(Part(mark))
        return fitted
    }

    /// Returns the characters with the colours of a style.
    package func rendered(_ style: TextStyle) -> String {
        parts.map { part in part.status.map { style.colored(part.text, $0) } ?? part.text }.joined()
    }

    /// Returns the number of columns of a text without control characters (wcwidth(3)).
    ///
    /// Characters that the C library does not know count as wide ones: a line that is too short does less harm.
    private static func columns(of text: String) -> Int {
        text.unicodeScalars.reduce(0) { sum, scalar in
            guard !scalar.isASCII else { return sum + 1 }
            let columns = cprocess_columns(scalar.value)
            return sum + (columns < 0 ? 2 : Int(columns))
        }
    }
}
