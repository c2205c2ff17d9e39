import ArgumentParser

/// The option that selects text or JSON.
struct FormatOption: ParsableArguments {
    @Option(help: "The output format: text for people, json for one object a line.")
    var format = OutputFormat.text
}

/// The options of the lines of `watch` and `replay`.
struct TransitionOptions: ParsableArguments {
    @OptionGroup var form: FormatOption

    @Flag(help: "Report every loss at once, however short.")
    var raw = false
}

/// The option that ends `watch` and `record` after a time.
struct TimeLimitOption: ParsableArguments {
    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeLimit: DurationArgument?

    /// The time limit; `nil` for none.
    var duration: Duration? { timeLimit?.duration }
}
