internal import CNetlink
internal import Glibc
internal import Synchronization

/// Looks hosts up on threads of its own, for the system's resolver takes its time: up to many seconds without a name server.
///
/// Safe to use from any thread.
final class HostResolver: Sendable {
    /// How many look-ups are under way at most; further ones wait, for as long as name servers that do not answer take.
    private static let threadLimit = 32

    private struct State {
        var waiting: [String] = []
        var threads = 0
        var answers: [(name: String, answer: HostAnswer)] = []
    }

    private let namespace: String?
    private let state = Mutex(State())
    private let hasAnswers = Atomic(false)

    init(namespace: String?) { self.namespace = namespace }

    /// Begins to look a host up; `notify` is called when the answer can be taken.
    func resolve(_ name: String, notify: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.waiting.append(name)
            guard state.threads < Self.threadLimit else { return false }
            state.threads += 1
            return true
        }
        guard needsThread else { return }
        let error = ReaderThread.start(named: "reach-resolver") { [self] in work(notify) }
        if error != 0 {
            state.withLock { $0.threads -= 1 }
            answerAll(.failed, notify)
        }
    }

    /// The answers that have come since the last call, as events; `nil` if none has.
    func takeAnswers() -> [NetworkEvent]? {
        guard hasAnswers.load(ordering: .acquiring), hasAnswers.exchange(false, ordering: .acquiringAndReleasing) else {
            return nil
        }
        return state.withLock { state in
            defer { state.answers = [] }
            return state.answers.map { .host($0.name, $0.answer) }
        }
    }

    /// Looks a host up, and returns when that is done (getaddrinfo(3)).
    ///
    /// Blocks the calling thread, which has to be in the right network namespace.
    static func lookUp(_ name: String) -> HostAnswer {
        // A text with a NUL would be cut there.
        guard !name.isEmpty, !name.utf8.contains(0) else { return .notFound }
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        // One answer for each address, and not one more for each kind of socket.
        hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(name, nil, &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard result == 0 else { return isFinal(result) ? .notFound : .failed }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = IPAddress(entry) { addresses.append(address) }
            next = entry.ai_next
        }
        return addresses.isEmpty ? .notFound : .addresses(addresses)
    }

    /// The same in a network namespace, which costs a thread.
    static func lookUp(_ name: String, namespace: String?) -> HostAnswer {
        guard let namespace else { return lookUp(name) }
        let resolver = HostResolver(namespace: namespace)
        let event = WakeUp()
        resolver.resolve(name) { event.signal() }
        let descriptors = [event.descriptor]
        while true {
            if let answer = resolver.state.withLock({ $0.answers.first?.answer }) { return answer }
            // Without a descriptor to wait for it fails at once, as if no name server answered.
            guard event.descriptor >= 0, cnl_wait(descriptors, 1, -1) >= 0 else { return .failed }
            event.clear()
        }
    }

    /// Whether asking again would give the same answer: there is no such name, or none with addresses (EAI_ADDRFAMILY, EAI_NODATA).
    private static func isFinal(_ error: Int32) -> Bool { error == EAI_NONAME || error == -9 || error == -5 }

    private func work(_ notify: @Sendable () -> Void) {
        if let namespace, cnl_enter_namespace(namespace) != 0 {
            state.withLock { $0.threads -= 1 }
            return answerAll(.failed, notify)
        }
        while let name = next() { answer([name], Self.lookUp(name), notify) }
    }

    /// The next name to look up; without one the thread is no longer counted.
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
