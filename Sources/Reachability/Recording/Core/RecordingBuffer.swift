/// What is recorded and not yet written: bounded, and with a mark where something did not fit.
///
/// After a drop it goes on with a batch: answers without the batch that they belong to would be taken for another's.
package struct RecordingBuffer: Sendable {
    /// How many bytes it holds at most, those included that are being written.
    package let limit: Int
    /// How many entries were dropped.
    package private(set) var lost: UInt64 = 0
    /// How many bytes were handed out for writing.
    package private(set) var written: UInt64 = 0
    private var bytes: [UInt8] = []
    private var inFlight = 0
    /// How many entries were dropped since the last one that was kept; when that began.
    private var gap: (lost: UInt64, now: Duration, wallTime: Duration)?

    package init(limit: Int) { self.limit = max(limit, 0) }

    package var isEmpty: Bool { bytes.isEmpty }

    /// Whether so much waits that the writer had better begin.
    package var isFilling: Bool { bytes.count > limit / 2 }

    /// Appends what is not part of the traffic: the file's header, the session.
    package mutating func appendPreamble(_ preamble: [UInt8]) { bytes += preamble }

    /// Appends an entry, or drops it.
    package mutating func append(_ entry: RecordingEntry, _ entryBytes: [UInt8]?) {
        if let gap {
            let mark = RecordingEntry(.gap(lost: gap.lost), now: gap.now, wallTime: gap.wallTime).bytes ?? []
            if entry.beginsAnew, let entryBytes, fits(mark.count + entryBytes.count) {
                bytes += mark
                self.gap = nil
            }
        }
        if gap == nil, let entryBytes, fits(entryBytes.count) {
            bytes += entryBytes
        } else {
            gap = (lost: (gap?.lost ?? 0) + 1, now: gap?.now ?? entry.now, wallTime: gap?.wallTime ?? entry.wallTime)
            lost += 1
        }
    }

    /// Appends the last entry, and before it the mark of a gap, whatever the limit.
    package mutating func finish(_ entry: RecordingEntry) {
        if let gap { bytes += RecordingEntry(.gap(lost: gap.lost), now: gap.now, wallTime: gap.wallTime).bytes ?? [] }
        gap = nil
        bytes += entry.bytes ?? []
    }

    /// Takes what there is to write, and counts what was taken before as written.
    package mutating func take() -> [UInt8] {
        defer {
            inFlight = bytes.count
            bytes = []
        }
        written += UInt64(inFlight)
        return bytes
    }

    private func fits(_ count: Int) -> Bool { bytes.count + inFlight + count <= limit }
}

extension RecordingEntry {
    /// Whether a reader can begin here.
    fileprivate var beginsAnew: Bool {
        if case .batch = content { true } else { false }
    }
}
