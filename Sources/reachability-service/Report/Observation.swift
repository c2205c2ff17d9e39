import CommandKit
import FoundationEssentials
import Reachability

/// One entry of a history: the state of a scope, or evidence that it was watched.
struct Observation: Hashable, Sendable {
    /// The sort of entry.
    enum Kind: String, Sendable {
        /// The present state: at the beginning of a watch, or repeated in it.
        case baseline
        /// A change.
        case transition
        /// A heartbeat: nothing has changed since the last entry.
        case alive
        /// The end of a watch.
        case end
    }

    var kind: Kind
    /// The wall time, since 1970-01-01T00:00:00Z.
    var time: Duration
    /// The time since boot, suspension included.
    var sinceBoot: Duration?
    /// The scope; empty for ``Kind/alive`` and ``Kind/end``, which are about all scopes of a watch.
    var scope: String
    /// The verdict; unknown for entries without a state.
    var status: NetworkPath.Status
    /// The name of the ``OfflineReason``; a later version may have others.
    var reason: String?
    /// The outgoing interface; of an unsatisfied path the lost one, or that of the cause.
    var interface: String?
    /// The kinds of change (``Transition/Kinds/names``).
    var kinds: [String]
    /// The cause: its kind and its words.
    var causeKind: String?
    var causeDetail: String?
    var flapPenalty: Double?
    /// The number of losses since the transition before; `nil` for other entries, and for those of earlier versions.
    var losses: Int?
    /// The number of the transition: a gap means that entries are missing.
    var sequence: UInt64?
    /// True for a baseline that repeats the state of the entries before it, as at the beginning of another file.
    var isContinued = false

    /// True for the first entry of a watch: before it the scope was not watched.
    var beginsWatch: Bool { kind == .baseline && !isContinued }
    /// True for entries with a state.
    var hasState: Bool { kind == .baseline || kind == .transition }

    /// The number of losses that ended before they were published.
    var shortLosses: Int {
        guard let losses else { return kinds.contains("reestablished") ? 1 : 0 }
        return max(0, losses - (kinds.contains("offline") ? 1 : 0))
    }
}

extension Observation {
    /// Makes the entry of a transition.
    init(_ transition: Transition, of scope: Scope) {
        let path = transition.current
        let interface = path.interface?.name ?? transition.previous?.interface?.name ?? transition.cause.interface?.name
        let hasCause = !transition.isBaseline || transition.cause.kind != .started
        self.init(
            kind: transition.isBaseline ? .baseline : .transition, time: transition.wallTime, sinceBoot: transition.at.sinceBoot,
            scope: scope.description, status: path.status, reason: path.offlineReason?.rawValue, interface: interface,
            kinds: transition.kinds.names, causeKind: hasCause ? transition.cause.kind.rawValue : nil,
            causeDetail: hasCause ? transition.cause.detail : nil, flapPenalty: transition.flapPenalty,
            losses: transition.isBaseline ? nil : transition.losses, sequence: transition.sequence)
    }

    /// Reads a line of `watch --format json` or `watch --log`; `nil` for a damaged line, and for one that is no entry of a history.
    init?(jsonLine: some Sequence<UInt8>) {
        guard let line = try? JSONDecoder().decode(Line.self, from: Data(jsonLine)), let kind = Kind(rawValue: line.event),
            let time = line.time.flatMap(CalendarTime.time(rfc3339:)), line.at.map(Self.isTime) ?? true
        else { return nil }
        self.init(kind: kind, time: time, scope: "", status: .unknown, kinds: [])
        sinceBoot = line.at.map { .nanoseconds(Int64(($0 * 1e9).rounded())) }
        guard hasState else { return }
        guard let scope = line.scope, !scope.isEmpty, scope.utf8.count <= Self.longestScope, let path = line.path,
            let status = NetworkPath.Status(rawValue: path.status)
        else { return nil }
        self.scope = scope
        self.status = status
        reason = path.reason.map(Self.shortened)
        interface = (path.interface ?? line.previous?.interface ?? line.cause?.interface).map(Self.shortened)
        kinds = line.kinds ?? []
        causeKind = (line.cause?.kind).map(Self.shortened)
        causeDetail = (line.cause?.detail).map(Self.shortened)
        flapPenalty = line.flapPenalty
        losses = line.losses.map { min(max(0, $0), Self.mostLosses) }
        sequence = line.sequence
        isContinued = line.continued ?? false
    }

    /// The length of the longest scope in bytes: a host name with its qualifiers.
    private static let longestScope = 512

    /// The most losses of one entry: sums of larger numbers would not fit.
    private static let mostLosses = 1_000_000_000

    /// Returns true for a time since boot: the nanoseconds of a larger number do not fit.
    private static func isTime(_ seconds: Double) -> Bool { (0..<9e9).contains(seconds) }

    /// Returns a text of at most 256 characters: histories hold many of them.
    private static func shortened(_ text: String) -> String {
        guard text.utf8.count > 256, text.unicodeScalars.count > 256 else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(255))) + "…"
    }

    /// The keys of docs/json.md that a history needs.
    private struct Line: Decodable {
        struct Path: Decodable {
            var status: String
            var reason: String?
            var interface: String?
        }

        struct Cause: Decodable {
            var kind: String
            var detail: String
            var interface: String?
        }

        var event: String
        var time: String?
        var at: Double?
        var scope: String?
        var path: Path?
        var previous: Path?
        var kinds: [String]?
        var cause: Cause?
        var flapPenalty: Double?
        var losses: Int?
        var sequence: UInt64?
        var continued: Bool?
    }
}
