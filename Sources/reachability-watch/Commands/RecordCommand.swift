import ArgumentParser
import Glibc
import Reachability

/// The subcommand `record`.
struct RecordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record",
        abstract: "Writes all that the kernel says to a file, for replay to tell it again on any machine.",
        discussion: """
            It goes on until its time is up or SIGHUP, SIGINT or SIGTERM ends it (not under nohup(1): what was ignored stays \
            ignored), and writes nothing to standard output. The file holds interface
            names and addresses, and no traffic.

            EXAMPLES
              reachability-watch record outage.reach
              reachability-watch record --to 192.0.2.7 --for 1h - | gzip > outage.reach.gz
            """)

    @Argument(help: ArgumentHelp("The file to make, or - for standard output. Nothing is overwritten.", valueName: "file"))
    var file: String

    @OptionGroup var target: ScopeOptions

    @Option(
        name: .customLong("for"), help: ArgumentHelp("End after this time, such as 250ms, 2s, 5m or 1h.", valueName: "duration"),
        transform: { try DurationArgument($0) })
    var timeLimit: DurationArgument?

    func run() {
        Program.run(in: target.namespacePath) { [file, target, timeLimit] interruption in
            let output: RecordingFile
            do throws(ReachabilityError) {
                output =
                    file == "-"
                    ? RecordingFile(descriptor: STDOUT_FILENO, name: "standard output") : try RecordingFile(creating: file)
            } catch {
                return Self.report(cannotCreate: error, file)
            }
            let session = RecordSession(
                source: KernelNetwork(), scopes: target.scopes, timeLimit: timeLimit?.duration,
                sink: { bytes throws(ReachabilityError) in try output.write(bytes) })
            let outcome = await session.run(until: interruption)
            if outcome.lost > 0 {
                DescriptorOutput.complain(
                    "\(outcome.lost) entries were dropped, and marked in the recording: \(output.path) is written too slowly.")
            }
            return switch outcome.end {
            case .done: .yes
            case .writingFailed(let error): Self.report(cannotWrite: error, output.path)
            case .monitorEnded(let error): error.map { Program.report($0) } ?? .unknown
            }
        }
    }

    private static func report(cannotWrite error: ReachabilityError, _ file: String) -> ExitStatus {
        switch error.errno {
        case EPIPE: return .yes
        case EFBIG:
            DescriptorOutput.complain(
                "\(quotation(file)) has reached the limit on the size of files, and holds everything up to there; "
                    + "next: raise the limit, e.g. `ulimit -f unlimited`, and record to another file")
            return .outputFailed
        default: return Program.report(error, as: .outputFailed)
        }
    }

    private static func report(cannotCreate error: ReachabilityError, _ file: String) -> ExitStatus {
        guard error.errno == EEXIST else { return Program.report(error, as: .cannotCreate) }
        DescriptorOutput.complain("\(quotation(file)) exists: choose another name, or remove it.")
        return .cannotCreate
    }
}

/// What `record` does: it keeps a monitor watching and writes what passes between it and its source.
struct RecordSession {
    /// Why it ended.
    enum End: Hashable {
        /// The time was up, or a signal came.
        case done
        case writingFailed(ReachabilityError)
        case monitorEnded(ReachabilityError?)
    }

    /// How it ended, and how many entries were dropped.
    struct Outcome: Hashable {
        var end: End
        var lost: UInt64
    }

    let source: any NetworkSource
    let scopes: [Scope]
    var timeLimit: Duration?
    var clock: any Clock<Duration> = ContinuousClock()
    let sink: @Sendable ([UInt8]) throws(ReachabilityError) -> Void

    /// Records until the time limit or an interruption, until writing fails, or until the monitor ends.
    ///
    /// When it returns, all is written.
    func run(until interruption: AsyncStream<Int32>) async -> Outcome {
        let (failures, failed) = AsyncStream.makeStream(of: ReachabilityError.self)
        let recorder = Self.recorder(source, scopes) { [sink] bytes throws(ReachabilityError) in
            do throws(ReachabilityError) {
                try sink(bytes)
            } catch {
                failed.yield(error)
                throw error
            }
        }
        let session = MonitorSession(
            monitor: ReachabilityMonitor(recorder), scopes: scopes, isRaw: true, timeLimit: timeLimit, clock: clock)
        let end = await withTaskGroup(of: End?.self) { group in
            group.addTask {
                let end = await session.run { _, _ in nil }
                return if case .monitorEnded(let error) = end { .monitorEnded(error) } else { .done }
            }
            group.addTask {
                for await error in failures { return .writingFailed(error) }
                return nil
            }
            group.addTask {
                for await _ in interruption { return .done }
                return nil
            }
            defer { group.cancelAll() }
            for await end in group { if let end { return end } }
            return .done
        }
        // What was left over at the end may have failed, too.
        if let error = recorder.progress.failure as? ReachabilityError {
            return Outcome(end: .writingFailed(error), lost: recorder.progress.entriesLost)
        }
        return Outcome(end: end, lost: recorder.progress.entriesLost)
    }

    private static func recorder(
        _ source: some NetworkSource, _ scopes: [Scope], _ sink: @escaping @Sendable ([UInt8]) throws(ReachabilityError) -> Void
    ) -> NetworkRecorder {
        NetworkRecorder(source, scopes: scopes, to: sink)
    }
}
