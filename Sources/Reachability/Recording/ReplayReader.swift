/// Assembles a recording from the bytes of a file: batches, each with its answers.
struct ReplayReader: Sendable {
    /// The scopes that were watched during the recording.
    private(set) var scopes: [Scope] = []
    private let read: @Sendable () throws -> [UInt8]
    /// The decoder of the file's format; the other one is `nil`.
    private var recording: RecordingDecoder?
    private var rtmon: RtmonDecoder?
    /// The next window, whose answers are being read.
    private var window: ReplayState.Window?
    /// `true` if entries of the window are missing: dropped by the recorder, or damaged.
    private var isDamaged = false
    private var knownDamage = 0
    private var hasEnded = false

    /// Reads up to the first batch.
    ///
    /// - Parameter beginning: the bytes that were read already.
    init(_ beginning: [UInt8] = [], reading read: @escaping @Sendable () throws -> [UInt8]) throws(ReachabilityError) {
        self.read = read
        var first = beginning
        while first.count < RtmonDecoder.stampSize {
            let bytes = try readMore()
            if bytes.isEmpty { break }
            first += bytes
        }
        if RtmonDecoder.recognizes(first) {
            rtmon = RtmonDecoder()
            rtmon?.append(first)
        } else {
            recording = RecordingDecoder()
            recording?.append(first)
            _ = try completeWindow()
        }
    }

    /// `false` if the file holds events only.
    var hasAnswers: Bool { rtmon == nil }

    /// The version of the recording's format.
    var version: UInt16 { recording?.version ?? RecordingFormat.majorVersion }

    var report: RecordingReport { recording?.report ?? rtmon?.report ?? RecordingReport() }

    /// Returns the next batch with its answers; `nil` at the end.
    mutating func next() throws(ReachabilityError) -> ReplayState.Window? {
        guard hasAnswers else {
            guard let entry = try nextEntry(), case .batch(let batch) = entry.content else { return nil }
            return ReplayState.Window(batch)
        }
        guard window != nil else { return nil }
        return try completeWindow()
    }

    /// Reads up to the start of the next window, and returns the one before.
    private mutating func completeWindow() throws(ReachabilityError) -> ReplayState.Window? {
        while !hasEnded, let entry = try nextEntry() {
            switch entry.content {
            case .session(let scopes): self.scopes = scopes
            case .batch(var batch):
                // The content of the missing entries is unknown: start a resync.
                if isDamaged { batch.events.insert(.overrun, at: 0) }
                window?.isWhole = !isDamaged
                isDamaged = false
                defer { window = ReplayState.Window(batch) }
                return window
            case .interfaces, .route, .inspection, .links: window?.answers.append(entry)
            case .gap: isDamaged = true
            case .end: hasEnded = true
            }
        }
        window?.isWhole = hasEnded && !isDamaged
        defer { window = nil }
        return window
    }

    private mutating func nextEntry() throws(ReachabilityError) -> RecordingEntry? {
        while true {
            let step = try recording?.next() ?? rtmon?.next()
            if report.malformed > knownDamage { (isDamaged, knownDamage) = (true, report.malformed) }
            switch step {
            case .entry(let entry): return entry
            case .end, nil: return nil
            case .needsMore:
                let bytes = try readMore()
                if bytes.isEmpty {
                    recording?.finish()
                    rtmon?.finish()
                } else {
                    recording?.append(bytes)
                    rtmon?.append(bytes)
                }
            }
        }
    }

    private func readMore() throws(ReachabilityError) -> [UInt8] {
        do {
            return try read()
        } catch let error as ReachabilityError {
            throw error
        } catch {
            throw ReachabilityError(.fileFailed, operation: "reading the recording (\(error))")
        }
    }
}
