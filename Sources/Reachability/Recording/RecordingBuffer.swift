/// Recorded bytes that wait for the sink: bounded, with a mark in place of dropped entries.
///
/// After a drop it continues with a batch: answers without their batch would be taken for another batch's.
package struct RecordingBuffer: Sendable {
    /// The maximum number of bytes, including those that are being written.
    package let limit: Int
    /// The number of dropped entries.
    package private(set) var lost: UInt64 = 0
    /// The number of bytes that were written.
    package private(set) var written: UInt64 = 0
    private var bytes: [UInt8] = []
    private var inFlight = 0
    /// The number of entries dropped since the last kept one, and the time of the first.
    private var gap: (lost: UInt64, now: Duration, wallTime: Duration)?

    package init(limit: Int) { self.limit = max(limit, 0) }

    package var isEmpty: Bool { bytes.isEmpty }

    /// `true` if the writer should start before the next flush.
    package var isFilling: Bool { bytes.count > limit / 2 }

    /// Appends the file's header and the session, which are not part of the traffic.
    package mutating func appendPreamble(_ preamble: [UInt8]) { bytes += preamble }

    /// Appends an entry, or drops it if it does not fit.
    package mutating func append(_ entry: RecordingEntry, _ entryBytes: [UInt8]?) {
        if let gap {
            let mark = RecordingEntry(.gap(lost: gap.lost), now: gap.now, wallTime: gap.wallTime).bytes ?? []
            if entry.startsWindow, let entryBytes, fits(mark.count + entryBytes.count) {
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

    /// Appends the mark of a gap and the last entry, regardless of the limit.
    package mutating func finish(_ entry: RecordingEntry) {
        if let gap { bytes += RecordingEntry(.gap(lost: gap.lost), now: gap.now, wallTime: gap.wallTime).bytes ?? [] }
        gap = nil
        bytes += entry.bytes ?? []
    }

    /// Returns the bytes to write, and counts the bytes of the last call as written.
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
    /// `true` if a reader can continue here.
    fileprivate var startsWindow: Bool {
        if case .batch = content { true } else { false }
    }
}
