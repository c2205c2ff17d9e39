package import ArgumentParser

/// The option that selects text or JSON.
package struct FormatOption: ParsableArguments {
    @Option(help: "The output format: text for people, json for one object a line.")
    package var format = OutputFormat.text

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
