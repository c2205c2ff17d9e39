internal import Glibc
internal import Synchronization

/// Brings entries to a sink, on a thread of its own: whoever adds one never waits for the sink.
final class RecordingWriter: Sendable {
    private struct Guarded {
        var buffer: RecordingBuffer
        /// Whether entries are taken: from the beginning of the run to its end, or to the sink's failure.
        var isOpen = false
        var isFinished = false
        var failure: (any Error)?
    }

    private let guarded: Mutex<Guarded>
    private let sink: @Sendable ([UInt8]) throws -> Void
    private let wakeUp = EventFD()

    init(limit: Int, sink: @escaping @Sendable ([UInt8]) throws -> Void) {
        guarded = Mutex(Guarded(buffer: RecordingBuffer(limit: limit)))
        self.sink = sink
    }

    var progress: NetworkRecorder.Progress {
        guarded.withLock { guarded in
            NetworkRecorder.Progress(
                bytesWritten: guarded.buffer.written, entriesLost: guarded.buffer.lost, failure: guarded.failure)
        }
    }

    /// Begins with what stands before all entries.
    func open(_ preamble: [UInt8]) throws(ReachabilityError) {
        guard wakeUp.descriptor >= 0 else {
            throw ReachabilityError(.resourcesExhausted, errno: -wakeUp.descriptor, operation: "eventfd()")
        }
        guarded.withLock { guarded in
            guarded.buffer.appendPreamble(preamble)
            guarded.isOpen = true
        }
        wakeUp.signal()
    }

    /// Adds an entry.
    ///
    /// The writer learns of it at the next ``flush()``, unless much waits already: waking a thread costs more than the rest.
    func append(_ entry: RecordingEntry) {
        // Made before the lock is taken; while nothing is recorded it is not made at all.
        guard guarded.withLock(\.isOpen) else { return }
        let bytes = entry.bytes
        let isFilling = guarded.withLock { guarded in
            if guarded.isOpen { guarded.buffer.append(entry, bytes) }
            return guarded.buffer.isFilling
        }
        if isFilling { wakeUp.signal() }
    }

    /// Has the writer write what there is.
    func flush() { wakeUp.signal() }

    /// Adds the last entry; ``run()`` returns when it is written.
    func finish(_ entry: RecordingEntry) {
        guarded.withLock { guarded in
            if guarded.isOpen { guarded.buffer.finish(entry) }
            guarded.isOpen = false
            guarded.isFinished = true
        }
        wakeUp.signal()
    }

    /// Writes until the last entry is written, or the sink fails.
    func run() async {
        do {
            try await ReaderThread.run { [self] () throws(ReachabilityError) in writeAll() }
        } catch {
            fail(error)
        }
    }

    private func writeAll() {
        while true {
            let (bytes, isFinished) = guarded.withLock { ($0.buffer.take(), $0.isFinished) }
            if !bytes.isEmpty {
                do { try sink(bytes) } catch { return fail(error) }
                continue
            }
            if isFinished { return }
            var request = pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&request, 1, -1)
            wakeUp.clear()
        }
    }

    private func fail(_ error: any Error) {
        guarded.withLock { guarded in
            guarded.failure = error
            guarded.isOpen = false
        }
    }
}
