import Reachability

/// How lines for people look on the terminal or file they go to.
struct TextStyle: Hashable {
    /// Whether words are coloured besides being words.
    var hasColor = false
    /// Whether signs beyond ASCII can be shown.
    var hasUnicode = true

    /// The style for an environment (environ(7)), given whether the output is a terminal.
    ///
    /// No colour if NO_COLOR is set and not empty (no-color.org), or if TERM is unset, empty or `dumb`. The locale's variables rule
    /// in the order of locale(7).
    init(environment: (String) -> String?, isTerminal: Bool) {
        let isPlain = environment("NO_COLOR")?.isEmpty == false || ["", "dumb"].contains(environment("TERM") ?? "")
        hasColor = isTerminal && !isPlain
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
        let name = locale.lowercased()
        hasUnicode = name.contains("utf-8") || name.contains("utf8")
    }

    /// A style without regard to an environment.
    init(hasColor: Bool = false, hasUnicode: Bool = true) {
        self.hasColor = hasColor
        self.hasUnicode = hasUnicode
    }

    /// The sign and the word for a status, as wide as that of each other one.
    func label(_ status: NetworkPath.Status) -> String {
        let (sign, plainSign, word) =
            switch status {
            case .satisfied: ("●", "+", "online ")
            case .unsatisfied: ("○", "-", "offline")
            case .unknown: ("◌", "?", "unknown")
            }
        return colored("\(hasUnicode ? sign : plainSign) \(word)", status)
    }

    /// Text in the colour of a status.
    func colored(_ text: String, _ status: NetworkPath.Status) -> String {
        switch status {
        case .satisfied: colored(text, "32")
        case .unsatisfied: colored(text, "31")
        case .unknown: colored(text, "33")
        }
    }

    /// Text that matters less.
    func dimmed(_ text: String) -> String { colored(text, "2") }

    /// Text that stands out.
    func strong(_ text: String) -> String { colored(text, "1") }

    private func colored(_ text: String, _ code: String) -> String {
        hasColor ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text
    }
}
