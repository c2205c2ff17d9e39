import ArgumentParser

/// The time limit of commands that give one answer.
struct TimeoutOption: ParsableArguments {
    /// The limit unless one is given.
    static let standard = Duration.seconds(5)

    @Option(
        help: ArgumentHelp(
            "Do not wait longer than this for name servers, such as 500ms or 2s. Default: 5s.",
            valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeout: DurationArgument?

    /// The limit.
    var duration: Duration { timeout?.duration ?? Self.standard }
}
