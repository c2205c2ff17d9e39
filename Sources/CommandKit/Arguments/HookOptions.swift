package import ArgumentParser

/// The options of `watch` that run a program for each transition.
package struct HookOptions: ParsableArguments {
    /// The time limit without an option.
    package static let defaultTimeLimit = Duration.seconds(30)

    @Option(
        help: ArgumentHelp(
            """
            Run this program, a path or a name in the PATH, for each line: PROGRAM online, offline or unknown, with the facts in \
            REACHABILITY_ variables.
            """,
            valueName: "program"),
        completion: .file())
    package var exec: String?

    @Option(
        help: ArgumentHelp(
            "End a program of --exec and all its processes after this time. Default: 30s.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    package var execTimeout: DurationArgument?

    package func validate() throws {
        if exec?.isEmpty == true { throw ValidationError("--exec is empty; next: name a program") }
        if execTimeout?.duration == .zero {
            throw ValidationError("--exec-timeout is zero; next: use a longer time, such as 30s")
        }
        if execTimeout != nil, exec == nil {
            throw ValidationError("--exec-timeout has no program to end; next: add --exec, or omit it")
        }
    }

    /// The time limit of a program.
    package var timeLimit: Duration { execTimeout?.duration ?? Self.defaultTimeLimit }

    /// The program's name, byte by byte as it was typed.
    package var program: [UInt8]? { exec.map(RawArguments.bytes(typedAs:)) }

    /// Creates it, for the parser.
    package init() {}
}
