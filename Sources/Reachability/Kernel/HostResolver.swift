internal import CNetlink
internal import Glibc
internal import Synchronization

/// Looks up hosts on its own threads: the system's resolver blocks, for many seconds without a name server.
///
/// Safe to use from any thread.
final class HostResolver: Sendable {
    /// The maximum number of concurrent lookups; further ones wait, as long as silent name servers take.
    private static let threadLimit = 32

    private struct State {
        var waiting: [String] = []
        var threads = 0
        var answers: [(name: String, answer: HostAnswer)] = []
    }

    private let namespace: String?
    private let state = Mutex(State())
    private let hasAnswers = Atomic(false)
    private let started = Atomic(0)

    init(namespace: String?) { self.namespace = namespace }

    /// The number of lookups that were started.
    var lookups: Int { started.load(ordering: .relaxed) }

    /// Starts a lookup, and calls `notify` when the answer can be taken.
    func resolve(_ name: String, notify: @escaping @Sendable () -> Void) {
        started.wrappingAdd(1, ordering: .relaxed)
        let needsThread = state.withLock { state in
            state.waiting.append(name)
            guard state.threads < Self.threadLimit else { return false }
            state.threads += 1
            return true
        }
        guard needsThread else { return }
        let error = SystemThread.start(named: "reach-resolver", blocksSignals: true) { [self] in work(notify) }
        if error != 0 {
            state.withLock { $0.threads -= 1 }
            answerAll(.failed(.notAsked), notify)
        }
    }

    /// Returns the answers since the last call as events; `nil` without any.
    func takeAnswers() -> [NetworkEvent]? {
        guard hasAnswers.load(ordering: .acquiring), hasAnswers.exchange(false, ordering: .acquiringAndReleasing) else {
            return nil
        }
        return state.withLock { state in
            defer { state.answers = [] }
            return state.answers.map { .host($0.name, $0.answer) }
        }
    }

    /// Looks up a host (getaddrinfo(3)).
    ///
    /// Blocks the calling thread, which must be in the network namespace already.
    private static func lookUp(_ name: String) -> HostAnswer {
        // A NUL would truncate the name.
        guard !name.isEmpty, !name.utf8.contains(0) else { return .failed(.notFound) }
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        // One answer for each address, instead of one for each socket type.
        hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let start = KernelClock().monotonicTime
        let result = getaddrinfo(name, nil, &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard result == 0 else { return .failed(failure(result, after: KernelClock().monotonicTime.saturatingSubtract(start))) }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = IPAddress(entry) { addresses.append(address) }
            next = entry.ai_next
        }
        return addresses.isEmpty ? .failed(.notFound) : .addresses(addresses)
    }

    /// The shortest time of a name server's silence: resolv.conf(5) has timeouts in seconds.
    private static let shortestSilence: Duration = .milliseconds(900)

    /// Returns the failure behind an error of getaddrinfo(3).
    ///
    /// EAI_AGAIN covers refusing and silent servers; only the elapsed time distinguishes them.
    private static func failure(_ error: Int32, after elapsed: Duration) -> NameLookupFailure {
        switch error {
        // -5 and -9: EAI_NODATA and EAI_ADDRFAMILY, declared for GNU sources only.
        case EAI_NONAME, -5, -9: .notFound
        case EAI_AGAIN: elapsed < shortestSilence ? .refused : .noAnswer
        case EAI_FAIL: .refused
        // EAI_SYSTEM, EAI_MEMORY: a shortage of this process.
        default: .notAsked
        }
    }

    /// A lookup with a caller that may stop waiting.
    private final class Pending: Sendable {
        /// The interval between checks without a descriptor to wait for.
        private static let pause: Duration = .milliseconds(20)

        private let answered = EventFD()
        private let answer = Mutex<HostAnswer?>(nil)

        func finish(_ result: HostAnswer) {
            answer.withLock { $0 = result }
            answered.signal()
        }

        func wait(atMost limit: Duration?) -> HostAnswer {
            let clock = KernelClock()
            let end = limit.map { clock.monotonicTime.saturatingAdd($0) }
            while true {
                if let answer = answer.withLock(\.self) { return answer }
                var rest = end.map { $0.saturatingSubtract(clock.monotonicTime) }
                if let rest, rest <= .zero { return .failed(.noAnswer) }
                let descriptor = answered.descriptor
                if descriptor < 0 { rest = min(rest ?? Self.pause, Self.pause) }
                _ = cnl_wait([descriptor], 1, rest?.clampedNanoseconds ?? -1)
            }
        }
    }

    /// Looks up hosts in a network namespace, each on its own thread, and waits at most `limit` for the answers.
    ///
    /// After that, the threads continue until the system's resolver returns.
    static func answers(for names: [String], namespace: String?, within limit: Duration?) -> [HostAnswer] {
        let clock = KernelClock()
        let end = limit.map { clock.monotonicTime.saturatingAdd($0) }
        var answers: [HostAnswer] = []
        while answers.count < names.count {
            let pending = names[answers.count...].prefix(threadLimit).map { start($0, namespace) }
            for lookup in pending {
                let rest = end.map { $0.saturatingSubtract(clock.monotonicTime) }
                answers.append(lookup?.wait(atMost: rest) ?? .failed(.notAsked))
            }
        }
        return answers
    }

    /// Starts a lookup, and returns `nil` without a thread for it.
    private static func start(_ name: String, _ namespace: String?) -> Pending? {
        let pending = Pending()
        let error = SystemThread.start(named: "reach-resolver", blocksSignals: true) {
            if let namespace, cnl_enter_namespace(namespace) != 0 { return pending.finish(.failed(.notAsked)) }
            pending.finish(lookUp(name))
        }
        return error == 0 ? pending : nil
    }

    /// The callers of lookups that ``answer(for:_:)`` runs, by name.
    private static let callers = Mutex<[String: [@Sendable (HostAnswer) -> Void]]>([:])

    /// Looks up a host on a thread of its own, which all callers share that ask for the name meanwhile.
    ///
    /// - Parameter body: Gets the answer, on that thread or at once on the calling one.
    static func answer(for name: String, _ body: @escaping @Sendable (HostAnswer) -> Void) {
        let isFirst = callers.withLock { callers in
            callers[name, default: []].append(body)
            return callers[name]?.count == 1
        }
        guard isFirst else { return }
        @Sendable func finish(_ answer: HostAnswer) {
            for body in callers.withLock({ $0.removeValue(forKey: name) }) ?? [] { body(answer) }
        }
        let error = SystemThread.start(named: "reach-resolver", blocksSignals: true) { finish(lookUp(name)) }
        if error != 0 { finish(.failed(.notAsked)) }
    }

    private func work(_ notify: @Sendable () -> Void) {
        if let namespace, cnl_enter_namespace(namespace) != 0 {
            state.withLock { $0.threads -= 1 }
            return answerAll(.failed(.notAsked), notify)
        }
        while let name = next() { answer([name], Self.lookUp(name), notify) }
    }

    /// Returns the next name; without one the calling thread is no longer counted.
    private func next() -> String? {
        state.withLock { state in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.threads -= 1
            return nil
        }
    }

    private func answerAll(_ result: HostAnswer, _ notify: @Sendable () -> Void) {
        let names = state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
        answer(names, result, notify)
    }

    private func answer(_ names: [String], _ result: HostAnswer, _ notify: @Sendable () -> Void) {
        state.withLock { $0.answers += names.map { ($0, result) } }
        hasAnswers.store(true, ordering: .releasing)
        notify()
    }
}

extension HostAnswer {
    /// Looks up a host by the system (getaddrinfo(3)), on a thread that all callers share that ask for the name meanwhile.
    ///
    /// - Parameter body: Gets the answer, on that thread or at once on the calling one.
    package static func find(_ name: String, _ body: @escaping @Sendable (HostAnswer) -> Void) {
        HostResolver.answer(for: name, body)
    }
}

extension IPAddress {
    fileprivate init?(_ entry: addrinfo) {
        guard let address = entry.ai_addr else { return nil }
        switch entry.ai_family {
        case AF_INET:
            let bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { $0 + [] }
            }
            self.init(bytes: bytes)
        case AF_INET6:
            let bytes = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin6_addr) { $0 + [] }
            }
            self.init(bytes: bytes)
        default: return nil
        }
    }
}
