import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The options of `serve` that run the programs of a directory for each transition.
struct ServeHookOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Run the executable files of this directory for the present state and for each change; see docs/hooks.md.",
            valueName: "dir"),
        completion: .directory)
    var hooks: String?

    @Option(
        help: ArgumentHelp("End a program of --hooks and all its processes after this time. Default: 30s.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var hooksTimeout: DurationArgument?

    func validate() throws {
        if hooks?.isEmpty == true { throw ValidationError("--hooks is empty; next: name a directory") }
        if hooksTimeout?.duration == .zero {
            throw ValidationError("--hooks-timeout is zero; next: use a longer time, such as 30s")
        }
        if hooksTimeout != nil, hooks == nil {
            throw ValidationError("--hooks-timeout has no program to end; next: add --hooks, or omit it")
        }
    }
}

/// The hooks of a service.
struct ServeHooks: Sendable {
    /// The path of their directory, for messages.
    let directory: String
    let runner: HookRunner

    /// - Parameters:
    ///   - directory: The path of their directory.
    ///   - runner: Runs them.
    init(directory: String, _ runner: HookRunner) { (self.directory, self.runner) = (directory, runner) }

    /// Prepares the hooks of a directory, and names them in a message.
    ///
    /// - Parameters:
    ///   - supervisor: Runs them, on a thread that this starts.
    ///   - fileModeMask: Their mask of the modes of new files.
    ///   - say: Takes messages, and the lines that hooks write.
    /// - Throws: ``CommandFailure`` if the directory is missing, or if other users could change it.
    init(
        _ options: ServeHookOptions, scopes: [Scope], supervisor: ChildSupervisor, fileModeMask: mode_t,
        say: @escaping @Sendable (String) -> Void
    ) throws(CommandFailure) {
        let output = try HookOutput(say: say)
        let path = RawArguments.bytes(typedAs: options.hooks ?? "")
        let directory = HookDirectory(path) { name, start throws(ChildFailure) in
            var start = start
            start.fileModeMask = fileModeMask
            try await output.run(name) { [start] () throws(ChildFailure) in
                try await supervisor.runHook(start, output: output.descriptor)
            }
        }
        self.directory = ForeignText(path).text
        runner = HookRunner(
            directory, scopes: scopes, timeLimit: options.hooksTimeout?.duration ?? HookOptions.defaultTimeLimit, say: say)
        let names: [String]
        do throws(HookProblem) {
            names = try directory.names()
        } catch {
            throw CommandFailure(error.isMissing ? .noInput : .notPermitted, "--hooks: \(error)")
        }
        // After setns(2): a thread's children are in its namespace.
        let error = SystemThread.start(named: "hooks") { supervisor.supervise() }
        guard error == 0 else {
            throw CommandFailure(
                .unknown, "--hooks has no thread: \(errorText(error)); next: raise the limit of processes, e.g. `ulimit -u`")
        }
        // A hook that may not run is reported with the first transition.
        let hooks = names.filter { (try? directory.hasProgram($0)) == true }
        let place = quotation(self.directory)
        say(
            hooks.isEmpty
                ? "there is no hook in \(place) yet; next: put executable files there" : "hooks in \(place): \(Self.list(hooks))")
    }

    /// Returns the first of the names.
    private static func list(_ names: [String]) -> String {
        let most = 8
        let first = names.prefix(most).map(quotation).joined(separator: " ")
        return names.count > most ? "\(first) and \(names.count - most) more" : first
    }
}
