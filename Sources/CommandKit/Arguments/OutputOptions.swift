package import ArgumentParser

/// The options that select text or JSON, and the colours of text.
package struct FormatOption: ParsableArguments {
    @Option(help: "The output format: text for people, json for one object a line.")
    package var format = OutputFormat.text

    @OptionGroup private var color: ColorOption

    /// The style of text on standard output.
    package var style: TextStyle { color.style }

    /// Creates it, for the parser.
    package init() {}
}

/// The option that selects the colours of text.
package struct ColorOption: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Colours in text: always, never, or auto (on a terminal, unless NO_COLOR is set or TERM is dumb).", valueName: "when"))
    package var color = ColorChoice.auto

    /// The style of text on standard output.
    package var style: TextStyle { Program.outputStyle(color) }

    /// Creates it, for the parser.
    package init() {}
}

/// The options of the lines of `watch` and `replay`.
package struct TransitionOptions: ParsableArguments {
    @OptionGroup package var form: FormatOption

    @Flag(help: "Report every loss at once, however short.")
    package var raw = false

    /// Creates it, for the parser.
    package init() {}
}

/// The option that ends `watch` and `record` after a time.
package struct TimeLimitOption: ParsableArguments {
    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    package var timeLimit: DurationArgument?

    /// The time limit; `nil` for none.
    package var duration: Duration? { timeLimit?.duration }

    /// Creates it, for the parser.
    package init() {}
}
