import Glibc
import Subprocess
import SystemPackage

/// A command that is run once for each attempt.
struct ChildCommand: Sendable {
    /// How long it has between SIGTERM and SIGKILL.
    static let teardownTime = Duration.seconds(5)

    /// The words of the command line, without their final zero bytes; file names need not be text.
    let words: [[UInt8]]
    let relay: SignalRelay
    /// Whether it gets a process group of its own.
    ///
    /// Not if it may read from a terminal: there only the foreground group may (termios(3)), which is this program's.
    let hasOwnGroup: Bool

    init(_ words: [[UInt8]], relay: SignalRelay, hasOwnGroup: Bool = isatty(STDIN_FILENO) == 0) {
        self.words = words
        self.relay = relay
        self.hasOwnGroup = hasOwnGroup
    }

    private var name: String { String(decoding: words.first ?? [], as: UTF8.self) }

    /// Runs it to its end, with this program's standard input, output and error.
    ///
    /// When the task is cancelled it gets SIGTERM, and SIGKILL five seconds later; then it counts as failed whatever its code.
    func run() async throws(ChildFailure) {
        var options = PlatformOptions()
        if hasOwnGroup { options.processGroupID = 0 }
        options.teardownSequence = [
            .gracefulShutDown(toProcessGroup: hasOwnGroup, allowedDurationToNextStep: Self.teardownTime)
        ]
        relay.willStart()
        let status: TerminationStatus
        do {
            // As a shell does: the command sees the name that it was called by.
            let arguments = Arguments(
                executablePathOverride: words.first.map { $0 + [0] }, remainingValues: words.dropFirst().map { $0 + [0] })
            status = try await Subprocess.run(
                Configuration(
                    executable: name.contains("/") ? .path(FilePath(name)) : .name(name), arguments: arguments,
                    platformOptions: options),
                input: .currentStandardInput, output: .currentStandardOutput, error: .currentStandardError
            ) { [relay, hasOwnGroup] execution in
                relay.didStart(execution.processIdentifier.value, hasOwnGroup: hasOwnGroup)
            }.terminationStatus
        } catch {
            let wasToldToEnd = relay.didEnd()
            throw ChildFailure(cause: startFailure(error), wasToldToEnd: wasToldToEnd)
        }
        let wasToldToEnd = relay.didEnd()
        let wasCut = Task.isCancelled
        switch status {
        case .exited(0) where !wasCut && !wasToldToEnd: return
        case .exited(let code): throw ChildFailure(cause: .exited(code), wasToldToEnd: wasToldToEnd, wasCut: wasCut)
        case .signaled(let signal): throw ChildFailure(cause: .signaled(signal), wasToldToEnd: wasToldToEnd, wasCut: wasCut)
        }
    }

    private func startFailure(_ error: any Error) -> ChildFailure.Cause {
        guard let error = error as? SubprocessError else { return .notExecutable(name, "\(error)") }
        if error.code == .executableNotFound {
            // The file may be there: without permission, a folder, or with an interpreter that is missing.
            return existingFile.map { .notExecutable($0, Self.obstacle($0)) } ?? .notFound(name)
        }
        switch error.underlyingError?.rawValue {
        case ENOEXEC?: return .notExecutable(name, "it is no program; a script needs a first line such as #!/bin/sh")
        case let number?: return .notExecutable(name, errorText(number))
        case nil: return .notExecutable(name, error.description)
        }
    }

    /// What stands against executing a file that exists.
    private static func obstacle(_ file: String) -> String {
        var information = stat()
        guard stat(file, &information) == 0 else { return errorText(errno) }
        if information.st_mode & S_IFMT == S_IFDIR { return "it is a folder" }
        return access(file, X_OK) == 0 ? "the interpreter that its first line names is missing" : "no permission; try chmod +x"
    }

    /// The file that would be meant if it could be executed.
    private var existingFile: String? {
        guard !name.contains("/") else { return access(name, F_OK) == 0 ? name : nil }
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        return path.split(separator: ":").map { "\($0)/\(name)" }.first { access($0, F_OK) == 0 }
    }
}
