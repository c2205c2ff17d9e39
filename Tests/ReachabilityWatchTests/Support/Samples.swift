import Reachability
import ReachabilityTesting
import TestSupport

@testable import CommandKit
@testable import reachability_watch

/// Paths, transitions and addresses for tests.
enum Samples {
    static let cable = NetworkInterface(index: 2, name: "eth0", addresses: [.init(address("192.0.2.10"), prefixLength: 24)])
    /// The time 2026-01-31T10:00:00.123456Z.
    static let morning = Duration.seconds(1_769_853_600) + .microseconds(123_456)

    static func address(_ text: String) -> IPAddress {
        IPAddress(text) ?? IPAddress(bytes: [0, 0, 0, 0]) ?? { preconditionFailure("not an address: \(text)") }()
    }

    static func online(_ interface: NetworkInterface = cable, hasIPv6: Bool = false) -> NetworkPath {
        var path = NetworkPath(status: .satisfied, interface: interface)
        path.ipv4 = FamilyPath(
            isSatisfied: true, interface: interface.identity, gateway: address("192.0.2.1"), source: address("192.0.2.10"))
        path.ipv6 =
            hasIPv6
            ? FamilyPath(
                isSatisfied: true, interface: interface.identity, gateway: address("fe80::1"), source: address("2001:db8::10"),
                table: 254, metric: 1024, prefixLength: 0)
            : FamilyPath(reason: .noRoute)
        return path
    }

    static func offline(_ reason: OfflineReason = .noCarrier) -> NetworkPath {
        NetworkPath(status: .unsatisfied, offlineReason: reason, ipv4: .init(reason: reason), ipv6: .init(reason: reason))
    }

    /// Returns a path whose lookups chose an interface that cannot be used.
    static func refused(_ reason: OfflineReason = .noCarrier, by interface: NetworkInterface) -> NetworkPath {
        var path = offline(reason)
        (path.ipv4.refusedInterface, path.ipv6.refusedInterface) = (interface.index, interface.index)
        return path
    }

    static func baseline(_ path: NetworkPath, at: Duration = .seconds(100)) -> Transition {
        Transition(
            sequence: 0, epoch: 1, previous: nil, current: path, kinds: [], cause: Cause(.started, "watching began"),
            at: BootInstant(sinceBoot: at),
            wallTime: morning, flapPenalty: 0)
    }

    static func transition(
        _ sequence: UInt64 = 1, from previous: NetworkPath, to current: NetworkPath, _ kinds: Transition.Kinds, _ cause: Cause,
        at: Duration = .seconds(100)
    ) -> Transition {
        Transition(
            sequence: sequence, epoch: 1, previous: previous, current: current, kinds: kinds, cause: cause,
            at: BootInstant(sinceBoot: at),
            wallTime: morning, flapPenalty: 0.5)
    }

    static let cableCut = Cause(.linkDown, "eth0 lost carrier", interface: cable.identity)
    static let cableBack = Cause(.linkUp, "eth0 got carrier", interface: cable.identity)
}

/// Returns `true` if a terminal shows all of a text and interprets none of it.
func isHarmless(_ text: String) -> Bool { text.unicodeScalars.allSatisfy(\.isHarmless) }

/// A collector of lines; tests can wait for each line, or act while it is being written.
final class LineCollector: LineOutput {
    private let collected = Recorder<String>()
    private let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    private let onWrite: @Sendable (Int) throws(OutputFailure) -> Void

    /// - Parameter onWrite: Called before each line with the number of earlier lines.
    init(onWrite: @escaping @Sendable (Int) throws(OutputFailure) -> Void = { _ in }) { self.onWrite = onWrite }

    /// The collected lines.
    var lines: [String] { collected.value }

    func write(_ line: String) throws(OutputFailure) {
        try onWrite(lines.count)
        collected.record(line)
        continuation.yield(line)
    }

    /// Waits for the next line.
    func next() async -> String {
        for await line in stream { return line }
        return ""
    }
}

extension SeededGenerator {
    /// Returns up to `length` scalars: mostly of `alphabet`, sometimes any.
    mutating func text(of alphabet: String, length: Int) -> String {
        let letters = Array(alphabet.unicodeScalars)
        var text = ""
        for _ in 0..<next() % UInt64(length + 1) {
            let letter = letters[Int(next() % UInt64(letters.count))]
            let any = Unicode.Scalar(UInt32(next() % 0x11_0000))
            text.unicodeScalars.append(next() % 8 == 0 ? any ?? letter : letter)
        }
        return text
    }
}
