import Reachability
import Synchronization

/// Writes a line for each event of a file that holds nothing else.
struct EventListing {
    private let session: ReplaySession

    init(_ session: ReplaySession) { self.session = session }

    /// Writes them until the end, or until the output fails.
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

    /// Reads to the end; returns why that failed, if it did.
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
            return "\(session.style.dimmed(time))  \(escapedForTerminal(cause.detail))"
        }
    }
}

/// The interfaces that events tell of, for their names.
private final class EventTable: Sendable {
    private let table = Mutex(InterfaceTable())

    /// What the events mean; those that change nothing mean nothing.
    func causes(of events: [NetworkEvent]) -> [Cause] {
        table.withLock { table in events.compactMap { table.apply($0.payload)?.cause } }
    }
}
