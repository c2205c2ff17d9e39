import ArgumentParser
import CommandKit
import Glibc
import Reachability
import Synchronization

/// The subcommand `replay`.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Writes the lines that watch would have written during a recording.",
        discussion: """
            Needs no network and no privilege. Files of rtmon hold events and no verdicts: their events are written.

            EXAMPLES
              reachability-watch replay outage.reach
              gunzip < outage.reach.gz | reachability-watch replay --speed 10 -
            """)

    @Argument(
        help: ArgumentHelp("The file from record or from rtmon, or - for standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @OptionGroup var lines: TransitionOptions

    @Option(
        help: ArgumentHelp("The speed: 1 for real time, 10 for ten times that, or max.", valueName: "n|max"),
        transform: { try SpeedArgument($0) })
    var speed: SpeedArgument?

    func run() {
        Program.run(in: nil) { [file, lines, speed] in
            ReaderWatch.start()
            let pace = speed?.factor.map { ReplayPace.following(ContinuousClock(), speed: $0) }
            let network: RecordedNetwork
            do throws(ReachabilityError) {
                let input =
                    file == "-" ? RecordingFile(descriptor: STDIN_FILENO, name: "standard input") : try RecordingFile(reading: file)
                let beginning = try CompressedFormat.beginning(of: input.read)
                if let format = CompressedFormat(beginning: beginning) {
                    DescriptorOutput.printMessage("\(quotation(input.path)) \(format.advice)")
                    return .invalidData
                }
                let rest = Mutex(beginning)
                network = try RecordedNetwork(pace: pace ?? .unlimited) {
                    // An empty chunk would mean the end.
                    let first = rest.withLock { bytes in
                        defer { bytes = [] }
                        return bytes
                    }
                    return first.isEmpty ? try input.read() : first
                }
            } catch {
                return Program.report(error, as: error.code == .invalidRecording ? .invalidData : .noInput)
            }
            let session = ReplaySession(
                network: network, isPaced: pace != nil, isRaw: lines.raw, format: lines.form.format, style: lines.form.style,
                localOffset: localOffset(at:), output: DescriptorOutput.standard, notes: DescriptorOutput.diagnostics)
            return Program.report(await session.run())
        }
    }
}

/// The work of `replay`: writes a line for each transition of a recording.
struct ReplaySession {
    let network: RecordedNetwork
    /// `true` to write lines as they come, at the pace of the replay.
    var isPaced = false
    var isRaw = false
    var format = OutputFormat.text
    var style = TextStyle()
    var localOffset: @Sendable (Duration) -> Int = { _ in 0 }
    let output: any LineOutput
    /// The output for notes about the recording.
    let notes: any LineOutput

    /// Replays until the end, or until the output fails.
    func run() async -> WatchSession.End {
        guard network.hasAnswers else {
            note("an rtmon file holds events but no verdicts; next: record verdicts with `reachability-watch record`")
            let end = await EventListing(self).run()
            writeRemarks()
            return end
        }
        var configuration = ReachabilityMonitor.Configuration()
        // A replay of days takes a moment, and no line may be dropped.
        configuration.bufferedTransitions = .max
        let watch = WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration),
            scopes: network.scopes.isEmpty ? [.internet] : network.scopes, isRaw: isRaw, format: format, style: style,
            localOffset: localOffset, output: output, notes: notes)
        let printer = TransitionPrinter(watch)
        let error = isPaced ? await printAsItComes(watch, printer) : await printInOrder(watch, printer)
        if let failure = await printer.failure { return .outputFailed(failure) }
        return end(after: error)
    }

    private func printAsItComes(_ watch: WatchSession, _ printer: TransitionPrinter) async -> ReachabilityError? {
        let session = MonitorSession(
            monitor: watch.monitor, scopes: watch.scopes, isRaw: isRaw, timeLimit: nil, clock: ContinuousClock())
        let end = await session.run { [network] index, transition in
            if Self.isEndOfRecording(transition, network) { return nil }
            return await printer.write(transition, ofScopeAt: index) ? .yes : nil
        }
        if case .monitorEnded(let error) = end { return error }
        return nil
    }

    /// Replays the whole recording, then writes the transitions of all scopes in the order of their times.
    private func printInOrder(_ watch: WatchSession, _ printer: TransitionPrinter) async -> ReachabilityError? {
        let streams = watch.scopes.map { watch.monitor.transitions(to: $0, raw: isRaw) }
        var error: ReachabilityError?
        do { try await watch.monitor.run() } catch let failure as ReachabilityError { error = failure } catch {}
        var iterators = streams.map { $0.makeAsyncIterator() }
        var next: [Transition?] = []
        for index in iterators.indices { next.append(await iterators[index].next(isolation: #isolation)) }
        while let (index, transition) = Self.earliest(next) {
            next[index] = await iterators[index].next(isolation: #isolation)
            if Self.isEndOfRecording(transition, network) { continue }
            if await printer.write(transition, ofScopeAt: index) { break }
        }
        return error
    }

    /// Returns the earliest transition; baselines come first, in the order of the scopes.
    private static func earliest(_ transitions: [Transition?]) -> (Int, Transition)? {
        transitions.enumerated().compactMap { index, transition in transition.map { (index, $0) } }
            .min { ($0.1.isBaseline ? 0 : 1, $0.1.at, $0.0) < ($1.1.isBaseline ? 0 : 1, $1.1.at, $1.0) }
    }

    /// Returns `true` if a transition only marks the end of the recording, which was no event then.
    private static func isEndOfRecording(_ transition: Transition, _ network: RecordedNetwork) -> Bool {
        transition.cause.kind == .ended && network.report.failure == nil
    }

    private func end(after error: ReachabilityError?) -> WatchSession.End {
        writeRemarks()
        // A recorded error belongs to the recording.
        return error == nil || error == network.report.failure ? .done : .monitorEnded(error)
    }

    private func writeRemarks() {
        let report = network.report
        for remark in report.remarks { note(remark) }
        if network.hasAnswers, !report.isComplete, !report.isTorn {
            note("the recording has no end: the recorder was killed or is still running; next: end it with Ctrl-C or SIGTERM")
        }
    }

    private func note(_ text: String) { try? notes.write("reachability-watch: \(ForeignText(text).terminal)") }
}

extension RecordingReport {
    /// The notes about damage and gaps.
    fileprivate var remarks: [String] {
        var remarks: [String] = []
        func count(_ number: some BinaryInteger, _ noun: String) -> String { number == 1 ? "1 \(noun)" : "\(number) \(noun)s" }
        if let failure { remarks.append("the recorded session ended by an error: \(failure)") }
        if malformed > 0 {
            remarks.append(
                "\(count(malformed, "damaged record")) left out: something may be missing here; next: copy the file again")
        }
        if skipped > 0 {
            remarks.append(
                "\(count(skipped, "record")) left out: this version does not know their kind; next: replay with a newer one")
        }
        if lost > 0 {
            remarks.append(
                "\(count(lost, "record")) missing: the disk was too slow for the recorder; next: record to a faster disk")
        }
        if let tornAt {
            remarks.append(
                "the recording ends in the middle of an entry at byte \(tornAt); everything before it was replayed; "
                    + "next: if this file is a copy, copy it again")
        }
        return remarks
    }
}

/// The lines of a file that holds events alone.
struct EventListing {
    private let session: ReplaySession

    init(_ session: ReplaySession) { self.session = session }

    /// Writes one line for each event until the end, or until the output fails.
    func run() async -> WatchSession.End {
        let (lines, line) = AsyncStream.makeStream(of: String.self)
        async let error = read {
            line.yield($0)
        } atEnd: {
            line.finish()
        }
        for await line in lines {
            do { try session.output.write(line) } catch { return .outputFailed(error) }
        }
        return await error.map { .monitorEnded($0) } ?? .done
    }

    /// Reads to the end; returns the error that ended reading.
    private func read(
        _ line: @escaping @Sendable (String) -> Void, atEnd: @Sendable () -> Void
    ) async -> ReachabilityError? {
        defer { atEnd() }
        let table = EventTable()
        do {
            try await session.network.run { [session] batch in
                for cause in table.causes(of: batch.events) { line(Self.line(cause, batch.wallTime, session)) }
                return nil
            }
            return nil
        } catch {
            return error as? ReachabilityError
        }
    }

    private static func line(_ cause: Cause, _ time: Duration, _ session: ReplaySession) -> String {
        switch session.format {
        case .json: return JSONValue.event(cause, at: time).description
        case .text:
            let time = CalendarTime(time, offset: session.localOffset(time)).plain
            return "\(session.style.dimmed(time))  \(ForeignText(cause.detail).terminal)"
        }
    }
}

/// The interfaces by index, for the names in the lines.
private final class EventTable: Sendable {
    private let table = Mutex(InterfaceTable())

    /// Returns the causes of events; events without an effect have none.
    func causes(of events: [NetworkEvent]) -> [Cause] {
        table.withLock { table in events.compactMap { table.apply($0.payload)?.cause } }
    }
}

/// A compression format, to recognize recordings that are still compressed.
enum CompressedFormat: String, CaseIterable {
    case gzip
    case xz
    case zstd
    case bzip2

    /// Recognizes the format by a file's first bytes.
    init?(beginning: [UInt8]) {
        guard let format = Self.allCases.first(where: { beginning.starts(with: $0.signature) }) else { return nil }
        self = format
    }

    /// The message after the file's name.
    var advice: String {
        let program =
            switch self {
            case .gzip: "gunzip"
            case .xz: "unxz"
            case .zstd: "unzstd"
            case .bzip2: "bunzip2"
            }
        return "is compressed with \(rawValue); next: decompress it: \(program) < FILE | reachability-watch replay -"
    }

    /// RFC 1952 §2.3.1; the .xz file format §2.1.1.1; RFC 8878 §3.1.1; "BZh" of bzip2.
    private var signature: [UInt8] {
        switch self {
        case .gzip: [0x1f, 0x8b]
        case .xz: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]
        case .zstd: [0x28, 0xb5, 0x2f, 0xfd]
        case .bzip2: [0x42, 0x5a, 0x68]
        }
    }

    /// Reads enough bytes to recognize a format, or until the end.
    static func beginning(of read: () throws(ReachabilityError) -> [UInt8]) throws(ReachabilityError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < 6, case let more = try read(), !more.isEmpty { bytes += more }
        return bytes
    }
}
