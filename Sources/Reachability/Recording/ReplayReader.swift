/// Puts a recording together again from the bytes of a file: batches, each with the answers that follow it.
struct ReplayReader: Sendable {
    /// What was watched while the recording was made.
    private(set) var scopes: [Scope] = []
    private let read: @Sendable () throws -> [UInt8]
    /// One of the two, by what the file is.
    private var decoder: RecordingDecoder?
    private var rtmonDecoder: RtmonDecoder?
    /// The next window, while its answers are being read.
    private var window: ReplayState.Window?
    /// Whether entries are missing since the window began: dropped by the recorder, or damaged.
    private var isDamaged = false
    private var knownDamage = 0
    private var hasEnded = false

    /// Reads on to the first batch.
    ///
    /// - Parameter beginning: what was read already.
    init(_ beginning: [UInt8] = [], reading read: @escaping @Sendable () throws -> [UInt8]) throws(ReachabilityError) {
        self.read = read
        var first = beginning
        while first.count < RtmonDecoder.stampSize {
            let bytes = try readOn()
            if bytes.isEmpty { break }
            first += bytes
        }
        if RtmonDecoder.recognizes(first) {
            rtmonDecoder = RtmonDecoder()
            rtmonDecoder?.append(first)
        } else {
            decoder = RecordingDecoder()
            decoder?.append(first)
            _ = try completeWindow()
        }
    }

    /// Whether it holds answers, and not events alone.
    var hasAnswers: Bool { rtmonDecoder == nil }

    /// The version of the recording's format.
    var version: UInt16 { decoder?.version ?? RecordingFormat.majorVersion }

    var report: RecordingReport { decoder?.report ?? rtmonDecoder?.report ?? RecordingReport() }

    /// The next batch and its answers; `nil` at the end.
    mutating func next() throws(ReachabilityError) -> ReplayState.Window? {
        guard hasAnswers else { return try nextBatch().map { ReplayState.Window($0) } }
        guard window != nil else { return nil }
        return try completeWindow()
    }

    /// Reads on until the next window begins, and returns the one before, which is then complete.
    private mutating func completeWindow() throws(ReachabilityError) -> ReplayState.Window? {
        while !hasEnded, let entry = try nextEntry() {
            switch entry.content {
            case .session(let scopes): self.scopes = scopes
            case .batch(var batch):
                // Nobody knows what the missing entries said: the monitor is to ask about everything.
                if isDamaged { batch.events.insert(.overrun, at: 0) }
                window?.isWhole = !isDamaged
                isDamaged = false
                defer { window = ReplayState.Window(batch) }
                return window
            case .interfaces, .route: window?.answers.append(entry)
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
            let step = try decoder?.next()
            if report.malformed > knownDamage { (isDamaged, knownDamage) = (true, report.malformed) }
            switch step {
            case .entry(let entry): return entry
            case .end, nil: return nil
            case .needsMore:
                let bytes = try readOn()
                if bytes.isEmpty { decoder?.finish() } else { decoder?.append(bytes) }
            }
        }
    }

    private mutating func nextBatch() throws(ReachabilityError) -> NetworkEventBatch? {
        while true {
            switch rtmonDecoder?.next() {
            case .batch(let batch): return batch
            case .end, nil: return nil
            case .needsMore:
                let bytes = try readOn()
                if bytes.isEmpty { rtmonDecoder?.finish() } else { rtmonDecoder?.append(bytes) }
            }
        }
    }

    private func readOn() throws(ReachabilityError) -> [UInt8] {
        do {
            return try read()
        } catch let error as ReachabilityError {
            throw error
        } catch {
            throw ReachabilityError(.fileFailed, operation: "reading the recording (\(error))")
        }
    }
}
