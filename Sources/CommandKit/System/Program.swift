package import ArgumentParser
import Glibc
package import Reachability

/// The frame of every command: namespace, threads, signals and exit.
package enum Program {
    /// The version of the commands.
    package static let version = "0.1.0"

    /// The time that a command has after a signal, if it has no child.
    package static let timeToEnd = Duration.milliseconds(100)

    /// Prepares the process, then parses the command line and runs its command.
    ///
    /// Runs synchronously: a namespace must be entered while there is only one thread.
    package static func main<Root: ParsableCommand>(_ root: Root.Type, parse: ([String]) throws -> any ParsableCommand) {
        ProcessSetup.perform()
        StartConditions.check()
        let words = RawArguments.texts
        do {
            var command = try parse(words)
            try command.run()
        } catch {
            guard root.exitCode(for: error) != .success else { root.exit(withError: error) }
            let text = quotingInput(in: root.fullMessage(for: error), words: words)
            try? DescriptorOutput.diagnostics.write(text)
            // The text is out already: this only ends the process.
            root.exit(withError: root.exitCode(for: error))
        }
    }

    /// Enters the namespace, then runs `body` on other threads while the main thread waits for signals.
    ///
    /// In this order: setns(2) moves only the calling thread, and new threads inherit its namespace.
    package static func run(in namespace: String?, _ body: @escaping @Sendable () async -> ExitStatus) -> Never {
        run(in: namespace, { await body().rawValue }, whileMainThread: { while true { pause() } })
    }

    /// Runs `body` like above, with an exit code of its own and work for the main thread.
    package static func run(
        in namespace: String?, _ body: @escaping @Sendable () async -> Int32, whileMainThread wait: () -> Never
    ) -> Never {
        enter(namespace)
        Task.detached {
            await StartConditions.openTimers()
            exit(await body())
        }
        wait()
    }

    /// Runs `body` like above and lets it clean up before a signal ends the process.
    ///
    /// The stream delivers SIGHUP, SIGINT or SIGTERM; ``HeldSignals/last`` is then set, and the process ends after `limit` at the
    /// latest, or with a second signal.
    ///
    /// - Parameters:
    ///   - others: Further signals for the stream, which end nothing; see ``HeldSignals/init(alsoTaking:)``.
    ///   - limit: The time that `body` has after the signal.
    ///   - supervisor: Ends its command after the signal, also if no thread is left for `body`; `body` then has more time.
    package static func run(
        in namespace: String?, alsoTaking others: [Int32] = [], endingWithin limit: Duration = timeToEnd,
        supervisor: ChildSupervisor? = nil,
        _ body: @escaping @Sendable (_ interruption: AsyncStream<Int32>) async -> ExitStatus
    ) -> Never {
        enter(namespace)
        let signals = HeldSignals(alsoTaking: others)
        let (interruption, interrupt) = AsyncStream.makeStream(of: Int32.self)
        Task.detached {
            await StartConditions.openTimers()
            let status = await body(interruption)
            exit(HeldSignals.last.map { 128 + $0 } ?? status.rawValue)
        }
        repeat { interrupt.yield(signals.next()) } while HeldSignals.last == nil
        supervisor?.end(with: HeldSignals.last ?? SIGTERM, within: limit)
        signals.waitForAnother(atMost: supervisor == nil ? limit : ChildSupervision.patience + .seconds(1) + limit)
        StatusLine.hide()
        _exit(128 + (HeldSignals.last ?? SIGTERM))
    }

    private static func enter(_ namespace: String?) {
        guard let namespace else { return }
        do {
            try enterNetworkNamespace(namespace)
        } catch {
            end(with: error)
        }
    }

    /// Writes a message about an error and ends the process with its status.
    package static func end(with error: ReachabilityError) -> Never {
        exit(report(error).rawValue)
    }

    /// Writes a message about an error and returns its status.
    ///
    /// - Parameter status: The status to use instead of the error's own.
    package static func report(_ error: ReachabilityError, as status: ExitStatus? = nil) -> ExitStatus {
        DescriptorOutput.printMessage(quotingInput(in: error.description, words: CommandLine.arguments))
        return status ?? ExitStatus(error)
    }

    /// Writes a message about a failed output, unless its reader left, and returns its status.
    package static func report(_ failure: OutputFailure) -> ExitStatus {
        guard case .refused(let errno) = failure else { return .yes }
        DescriptorOutput.printMessage(
            "cannot write to standard output: \(errorText(errno)) (errno \(errno)); next: check the place where it goes")
        return .outputFailed
    }

    /// Writes lines to standard output and returns the status to end with.
    ///
    /// A reader that left does not change the verdict.
    package static func write(_ lines: some Sequence<String>, thenEndWith status: ExitStatus) -> ExitStatus {
        do {
            for line in lines { try DescriptorOutput.standard.write(line) }
        } catch .readerGone {
            return status
        } catch {
            return report(error)
        }
        return status
    }

    /// Returns the value of an environment variable.
    package static func environment(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// Returns the style for standard output.
    package static func outputStyle(_ color: ColorChoice) -> TextStyle {
        TextStyle(color: color, environment: environment, isTerminal: isatty(STDOUT_FILENO) == 1)
    }
}
