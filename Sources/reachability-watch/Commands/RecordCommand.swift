import ArgumentParser
import CommandKit
import Glibc
import Reachability

/// The subcommand `record`.
struct RecordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record",
        abstract: "Saves every kernel event to a file, for replay on any machine.",
        discussion: """
            Records until --for has passed or SIGHUP, SIGINT or SIGTERM arrives (signals ignored at the start, as under nohup(1), \
            stay ignored). The file holds interface names and addresses, and no traffic.

            EXAMPLES
              reachability-watch record outage.reach
              reachability-watch record --to 192.0.2.7 --for 1h - | gzip > outage.reach.gz
            """)

    @Argument(
        help: ArgumentHelp("The file to create, or - for standard output. Existing files are kept.", valueName: "file"),
        completion: .file())
    var file: String

    @OptionGroup var target: ScopeOptions
    @OptionGroup var monitoring: MonitorOptions

    @OptionGroup var limit: TimeLimitOption

    func run() {
        Program.run(in: target.namespacePath) { [file, target, limit] interruption in
            let output: RecordingFile
            do throws(ReachabilityError) {
                output =
                    file == "-"
                    ? RecordingFile(descriptor: STDOUT_FILENO, name: "standard output") : try RecordingFile(creating: file)
            } catch {
                return Self.report(cannotCreate: error, file)
            }
            let session = RecordSession(
                source: KernelNetwork(), scopes: target.scopes, configuration: monitoring.configuration, timeLimit: limit.duration,
                sink: { bytes throws(ReachabilityError) in try output.write(bytes) })
            let outcome = await session.run(until: interruption)
            if outcome.lost > 0 {
                DescriptorOutput.printMessage(
                    "\(outcome.lost) entries dropped, and marked in the recording: writing \(output.path) is too slow; "
                        + "next: record to a faster disk")
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
            DescriptorOutput.printMessage(
                "\(quotation(file)) has reached the file size limit and holds everything up to there; "
                    + "next: raise the limit, e.g. `ulimit -f unlimited`, and record to another file")
            return .outputFailed
        default: return Program.report(error, as: .outputFailed)
        }
    }

    private static func report(cannotCreate error: ReachabilityError, _ file: String) -> ExitStatus {
        guard error.errno == EEXIST else { return Program.report(error, as: .cannotCreate) }
        DescriptorOutput.printMessage("\(quotation(file)) exists already; next: choose another name, or remove the file")
        return .cannotCreate
    }
}

/// The work of `record`: runs a monitor and saves the exchange with its source.
struct RecordSession {
    /// The reason why a recording ended.
    enum End: Hashable {
        /// The time was up, or a signal came.
        case done
        case writingFailed(ReachabilityError)
        case monitorEnded(ReachabilityError?)
    }

    /// The end of a recording and the number of dropped entries.
    struct Outcome: Hashable {
        var end: End
        var lost: UInt64
    }

    let source: any NetworkSource
    let scopes: [Scope]
    var configuration = ReachabilityMonitor.Configuration()
    var timeLimit: Duration?
    var clock: any Clock<Duration> = ContinuousClock()
    let sink: @Sendable ([UInt8]) throws(ReachabilityError) -> Void

    /// Records until the time limit, an interruption, a failed write or the end of the monitor.
    ///
    /// Returns after the last entry is written.
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
            monitor: ReachabilityMonitor(recorder, configuration: configuration), scopes: scopes, isRaw: true, timeLimit: timeLimit,
            clock: clock)
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
        // The final flush may have failed, too.
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
