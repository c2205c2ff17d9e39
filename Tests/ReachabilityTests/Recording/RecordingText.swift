import Reachability

/// All that an entry says, to compare it by.
func text(_ entry: RecordingEntry) -> String { String(reflecting: entry) }

/// All that a transition says.
func text(_ transition: Transition) -> String {
    "\(String(reflecting: transition)) \(transition.cause.kind) \(transition.cause.detail) \(transition.cause.interface as Any)"
}

/// A file with the entries in it.
func file(_ entries: [RecordingEntry]) -> [UInt8] {
    entries.reduce(RecordingFormat.header) { $0 + ($1.bytes ?? []) }
}

/// Reads a file that arrives in pieces of a size.
func decode(_ file: some Collection<UInt8>, pieces: Int = .max) throws -> (entries: [RecordingEntry], report: RecordingReport) {
    var decoder = RecordingDecoder()
    var rest = Array(file)[...]
    var entries: [RecordingEntry] = []
    while true {
        switch try decoder.next() {
        case .entry(let entry): entries.append(entry)
        case .end: return (entries, decoder.report)
        case .needsMore:
            if rest.isEmpty { decoder.finish() } else { decoder.append(Array(rest.prefix(pieces))) }
            rest = rest.dropFirst(pieces)
        }
    }
}
