import Reachability
import Synchronization

/// Returns all fields of an entry, for comparison.
func text(_ entry: RecordingEntry) -> String { String(reflecting: entry) }

/// Returns all fields of a transition; its description omits numbers and times.
func text(_ transition: Transition) -> String {
    var text = "\(transition.cause.kind) \(transition.cause.detail) \(transition.cause.interface as Any)\n"
    dump(transition, to: &text)
    return text
}

/// Returns a file of the entries.
func file(_ entries: [RecordingEntry]) -> [UInt8] {
    entries.reduce(RecordingFormat.header) { $0 + ($1.bytes ?? []) }
}

/// Decodes a file in pieces of a size.
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

/// A file that is read in pieces of a size.
final class Pieces: Sendable {
    private let rest: Mutex<ArraySlice<UInt8>>
    private let size: Int

    init(_ file: [UInt8], _ size: Int) {
        rest = Mutex(file[...])
        self.size = size
    }

    func next() -> [UInt8] {
        rest.withLock { rest in
            defer { rest = rest.dropFirst(size) }
            return Array(rest.prefix(size))
        }
    }
}
