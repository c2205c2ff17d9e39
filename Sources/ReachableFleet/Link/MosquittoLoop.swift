#if MQTT
internal import CLibMosquitto
internal import DequeModule
internal import Glibc
internal import Reachability
internal import Synchronization

/// The one thread that serves all connections of the process, with epoll(7).
///
/// It lasts as long as the process, and sleeps while there is no connection. Nothing on it blocks: ``MosquittoOpener`` looks up
/// names and reads files. Safe to use from any thread.
final class MosquittoLoop: Sendable {
    static let shared = MosquittoLoop()

    enum Command: Sendable {
        case open(MosquittoLink)
        /// The end of the opening.
        case opened(MosquittoLink, Result<MosquittoClient, FleetError>)
        case subscribe(MosquittoLink, [String])
        case publish(MosquittoLink, FleetMessage, (@Sendable (Bool) -> Void)?)
        case disconnect(MosquittoLink)
        case close(MosquittoLink)
    }

    private struct State {
        var commands: [Command] = []
        var isRunning = false
    }

    private let state = Mutex(State())
    private let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    private let wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))

    /// Gives a command to the thread; returns false if there is none.
    @discardableResult
    func send(_ command: Command) -> Bool {
        guard epoll >= 0, wakeUp >= 0 else { return false }
        let (starts, wakes) = state.withLock { state in
            defer { state.isRunning = true }
            state.commands.append(command)
            return (!state.isRunning, state.commands.count == 1)
        }
        if starts, SystemThread.start(named: "fleet", blocksSignals: true, { [self] in run() }) != 0 {
            _ = state.withLock { state in
                state.isRunning = false
                defer { state.commands = [] }
                return state.commands
            }
            return false
        }
        if wakes { eventfd_write(wakeUp, 1) }
        return true
    }

    private func run() {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: 0))
        epoll_ctl(epoll, EPOLL_CTL_ADD, wakeUp, &event)
        let server = MosquittoServer(epoll: epoll)
        var events = [epoll_event](repeating: epoll_event(), count: 64)
        while true {
            let count = epoll_wait(epoll, &events, Int32(events.count), server.timeout())
            for event in events.prefix(Int(max(0, count))) {
                if event.data.u64 == 0 {
                    var value: eventfd_t = 0
                    eventfd_read(wakeUp, &value)
                } else {
                    server.serve(event.data.u64, event.events)
                }
            }
            let commands = state.withLock { state in
                defer { state.commands = [] }
                return state.commands
            }
            for command in commands { server.perform(command) }
            server.passTime()
        }
    }
}

/// The connections, as the loop's thread sees them.
private final class MosquittoServer {
    /// The longest time between the beginning of an attempt and the broker's acceptance.
    private static let openingLimit: Int64 = 10_000
    /// The most attempts at one broker at a time.
    ///
    /// A broker sends each new subscriber all that it keeps. NATS, asked by 1 000 at once, answers none of them in time (measured).
    private static let attemptLimit = 16
    /// The longest time for the broker's confirmations, and then for its end of the connection.
    private static let leavingLimit: Int64 = 2_000

    private enum Phase {
        /// Others are being connected to the same broker.
        case queued
        /// The host is being looked up.
        case opening
        /// The network or the broker has not accepted the connection yet.
        case connecting(MosquittoClient, isWritable: Bool)
        case open(MosquittoClient)
        /// DISCONNECT follows when the broker has everything.
        case leaving(MosquittoClient)
        /// DISCONNECT was sent. Closing a socket with unread bytes resets the connection (RFC 1122 §4.2.2.13), and the broker might
        /// lose the DISCONNECT and publish the will: they are read until it closes.
        case draining(Int32)

        var client: MosquittoClient? {
            switch self {
            case .connecting(let client, _), .open(let client), .leaving(let client): client
            case .queued, .opening, .draining: nil
            }
        }
    }

    private final class Entry {
        let number: UInt64
        let link: MosquittoLink
        var phase = Phase.queued
        var deadline: Int64?
        /// The time from which on others may have their turn, until the broker has confirmed the subscription.
        var attemptEnd: Int64?
        /// The messages without the broker's confirmation.
        var unanswered: [Int32: (topic: String, answer: (@Sendable (Bool) -> Void)?)] = [:]
        /// The socket in the epoll instance, and the events that are waited for.
        var socket: Int32 = -1
        var events: UInt32 = 0

        init(_ number: UInt64, _ link: MosquittoLink) { (self.number, self.link) = (number, link) }
    }

    /// The attempts at one broker.
    private struct Attempts {
        var count = 0
        var queue: Deque<Entry> = []
    }

    private let epoll: Int32
    private var entries: [UInt64: Entry] = [:]
    private var numbers: [ObjectIdentifier: UInt64] = [:]
    private var attempts: [String: Attempts] = [:]
    private var lastNumber: UInt64 = 0
    private var nextTick: Int64?

    init(epoll: Int32) { self.epoll = epoll }

    private static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    // MARK: - Commands

    func perform(_ command: MosquittoLoop.Command) {
        switch command {
        case .open(let link): open(link)
        case .opened(let link, let result): opened(link, result)
        case .subscribe(let link, let filters):
            guard let entry = entry(link), case .open(let client) = entry.phase else { return }
            let result = client.subscribe(filters)
            if result != 0 { lose(entry, result) } else { update(entry) }
        case .publish(let link, let message, let answer):
            guard let entry = entry(link), case .open(let client) = entry.phase else {
                answer?(false)
                return
            }
            guard let identifier = client.publish(message) else {
                answer?(false)
                return lose(entry, code(MOSQ_ERR_CONN_LOST))
            }
            entry.unanswered[identifier] = (message.topic, answer)
            update(entry)
        case .disconnect(let link): entry(link).map(leave)
        case .close(let link): entry(link).map(close)
        }
    }

    /// Ends a connection at once, and drops unsent bytes (socket(7), SO_LINGER).
    ///
    /// The kernel would repeat them. Without a network each time fails for want of a neighbor's answer after 3 s, and a connection
    /// that begins meanwhile fails with it, although the network is back (EHOSTUNREACH, measured).
    private func close(_ entry: Entry) {
        if let socket = entry.phase.client?.socket, socket >= 0 {
            var abort = linger(l_onoff: 1, l_linger: 0)
            setsockopt(socket, SOL_SOCKET, SO_LINGER, &abort, socklen_t(MemoryLayout<linger>.size))
        }
        end(entry, nil)
    }

    private func entry(_ link: MosquittoLink) -> Entry? { numbers[ObjectIdentifier(link)].flatMap { entries[$0] } }

    private func open(_ link: MosquittoLink) {
        lastNumber += 1
        let entry = Entry(lastNumber, link)
        entries[lastNumber] = entry
        numbers[ObjectIdentifier(link)] = lastNumber
        attempts[link.transport.place, default: Attempts()].queue.append(entry)
        beginAttempts(at: link.transport.place)
    }

    private func beginAttempts(at place: String) {
        while let count = attempts[place]?.count, count < Self.attemptLimit, let entry = attempts[place]?.queue.popFirst() {
            // Closed meanwhile.
            guard entries[entry.number] != nil else { continue }
            attempts[place]?.count += 1
            let end = Self.now + Self.openingLimit
            (entry.phase, entry.deadline, entry.attemptEnd) = (.opening, end, end)
            MosquittoOpener.shared.open(entry.link)
        }
        if let state = attempts[place], state.count == 0, state.queue.isEmpty { attempts[place] = nil }
    }

    private func endAttempt(_ entry: Entry) {
        guard entry.attemptEnd != nil else { return }
        entry.attemptEnd = nil
        attempts[entry.link.transport.place]?.count -= 1
        beginAttempts(at: entry.link.transport.place)
    }

    private func opened(_ link: MosquittoLink, _ result: Result<MosquittoClient, FleetError>) {
        // Closed meanwhile: the client goes with the command.
        guard let entry = entry(link), case .opening = entry.phase else { return }
        switch result {
        case .success(let client):
            entry.phase = .connecting(client, isWritable: false)
            update(entry)
        case .failure(let failure): end(entry, failure)
        }
    }

    private func leave(_ entry: Entry) {
        guard case .open(let client) = entry.phase else { return end(entry, nil) }
        entry.phase = .leaving(client)
        entry.deadline = Self.now + Self.leavingLimit
        goOn(entry, client)
    }

    /// Sends DISCONNECT if nothing is left to be confirmed.
    private func goOn(_ entry: Entry, _ client: MosquittoClient) {
        guard entry.unanswered.isEmpty else { return update(entry) }
        let copy = fcntl(client.socket, F_DUPFD_CLOEXEC, 0)
        forget(entry)
        client.disconnect()
        // With a full buffer it is still to be written.
        while client.socket >= 0, client.wantsWrite, client.write() == (0, 0) {}
        guard copy >= 0 else { return end(entry, nil) }
        entry.phase = .draining(copy)
        entry.deadline = Self.now + Self.leavingLimit
        update(entry)
    }

    // MARK: - Events

    func serve(_ number: UInt64, _ events: UInt32) {
        guard let entry = entries[number] else { return }
        switch entry.phase {
        case .queued, .opening: break
        case .draining(let socket): drain(entry, socket)
        case .connecting(let client, let isWritable): proceed(entry, client, isWritable, events)
        case .open(let client), .leaving(let client):
            if events & ~EPOLLOUT.rawValue != 0 {
                // libmosquitto reads a packet at a time; the bound leaves others their turn.
                for _ in 0..<32 {
                    let (result, number) = client.read()
                    deliver(entry, client)
                    guard entries[entry.number] != nil else { return }
                    if result != 0 || client.refusesSubscription { return lose(entry, result) }
                    if number == EAGAIN { break }
                }
            }
            if client.wantsWrite {
                let (result, _) = client.write()
                if result != 0 { return lose(entry, result) }
            }
            if case .leaving = entry.phase { goOn(entry, client) } else { update(entry) }
        }
    }

    /// Continues a connection that the broker has not accepted yet.
    private func proceed(_ entry: Entry, _ client: MosquittoClient, _ isWritable: Bool, _ events: UInt32) {
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 {
            var number: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            getsockopt(client.socket, SOL_SOCKET, SO_ERROR, &number, &size)
            // libmosquitto would try a handshake again and again.
            if !isWritable || client.broker.usesTLS {
                _ = client.read()
                let family = entry.link.transport.family
                if !isWritable { entry.link.transport.changeFamily(from: family) }
                return end(entry, client.refusal(code(MOSQ_ERR_ERRNO), number))
            }
        }
        // TLS goes on in both; the packet that waits for it is written afterwards.
        for step in [client.read, client.write] {
            let (result, number) = step()
            deliver(entry, client)
            guard entries[entry.number] != nil else { return }
            guard result == 0, client.refusal == nil else { return end(entry, client.refusal(result, number)) }
        }
        if case .connecting = entry.phase { entry.phase = .connecting(client, isWritable: true) }
        update(entry)
    }

    private func deliver(_ entry: Entry, _ client: MosquittoClient) {
        for report in client.takeReports() {
            switch report {
            case .connected:
                entry.phase = .open(client)
                entry.deadline = nil
                entry.link.receive(.connected)
            case .subscribed:
                endAttempt(entry)
                entry.link.receive(.subscribed)
            case .message(let message): entry.link.receive(.message(message))
            case .published(let identifier): entry.unanswered.removeValue(forKey: identifier)?.answer?(true)
            }
        }
    }

    private func drain(_ entry: Entry, _ socket: Int32) {
        var bytes = [UInt8](repeating: 0, count: 16_384)
        for _ in 0..<16 {
            let count = recv(socket, &bytes, bytes.count, Int32(MSG_DONTWAIT))
            if count > 0 { continue }
            if count < 0, errno == EAGAIN || errno == EINTR { return }
            return end(entry, nil)
        }
    }

    // MARK: - Ends

    private func lose(_ entry: Entry, _ result: Int32) {
        guard let client = entry.phase.client else { return end(entry, nil) }
        if case .leaving = entry.phase { return end(entry, nil) }
        end(entry, client.loss(result, topics: entry.unanswered.values.lazy.map(\.topic)))
    }

    private func end(_ entry: Entry, _ failure: FleetError?) {
        guard entries.removeValue(forKey: entry.number) != nil else { return }
        numbers[ObjectIdentifier(entry.link)] = nil
        endAttempt(entry)
        forget(entry)
        if case .draining(let socket) = entry.phase { Glibc.close(socket) }
        // libmosquitto closes its socket.
        entry.phase = .opening
        for message in entry.unanswered.values { message.answer?(false) }
        entry.unanswered = [:]
        entry.link.end(failure)
    }

    // MARK: - Waiting

    /// Waits for the events that the connection needs now.
    private func update(_ entry: Entry) {
        let (socket, events): (Int32, UInt32)
        switch entry.phase {
        case .queued, .opening: return
        case .connecting(let client, let isWritable):
            // During a handshake libmosquitto may want to write all the time.
            let writes = !isWritable || !client.broker.usesTLS && client.wantsWrite
            (socket, events) = (client.socket, EPOLLIN.rawValue | (writes ? EPOLLOUT.rawValue : 0))
        case .open(let client), .leaving(let client):
            (socket, events) = (client.socket, EPOLLIN.rawValue | (client.wantsWrite ? EPOLLOUT.rawValue : 0))
        case .draining(let copy): (socket, events) = (copy, EPOLLIN.rawValue)
        }
        guard socket >= 0 else { return lose(entry, code(MOSQ_ERR_CONN_LOST)) }
        guard socket != entry.socket || events != entry.events else { return }
        var event = epoll_event(events: events, data: epoll_data_t(u64: entry.number))
        if epoll_ctl(epoll, socket == entry.socket ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event) != 0 {
            return lose(entry, code(MOSQ_ERR_ERRNO))
        }
        (entry.socket, entry.events) = (socket, events)
    }

    private func forget(_ entry: Entry) {
        if entry.socket >= 0 { epoll_ctl(epoll, EPOLL_CTL_DEL, entry.socket, nil) }
        (entry.socket, entry.events) = (-1, 0)
    }

    // MARK: - Time

    /// The time that the loop may sleep, in milliseconds; -1 for any.
    func timeout() -> Int32 {
        guard !entries.isEmpty, let nextTick else { return -1 }
        return Int32(clamping: max(0, nextTick - Self.now))
    }

    /// Ends what takes too long, and keeps connections alive.
    func passTime() {
        guard !entries.isEmpty else {
            nextTick = nil
            return
        }
        let now = Self.now
        // A new attempt needs a nearer tick than connections that are open.
        let hasDeadlines = entries.values.contains { $0.deadline != nil }
        if let nextTick, now < nextTick, !(hasDeadlines && nextTick > now + 500) { return }
        for entry in Array(entries.values) { passTime(entry, now) }
        let interval = entries.values.map { $0.link.connection.keepAlive }.min() ?? .seconds(20)
        let milliseconds = Int64(clamping: interval.attoseconds / 8_000_000_000_000_000)
        nextTick = now + (entries.values.contains { $0.deadline != nil } ? min(500, milliseconds) : milliseconds)
    }

    private func passTime(_ entry: Entry, _ now: Int64) {
        if let deadline = entry.deadline, deadline <= now {
            switch entry.phase {
            case .connecting(let client, let isWritable):
                let family = entry.link.transport.family
                if !isWritable { entry.link.transport.changeFamily(from: family) }
                return end(entry, client.silence(Self.openingLimit / 1_000))
            case .opening:
                let place = entry.link.transport.place
                let reason = "\(place) was not looked up in time; next: check this machine's name servers"
                return end(entry, FleetError(.unreachable, subject: reason))
            case .queued, .open, .leaving, .draining: return end(entry, nil)
            }
        }
        if let end = entry.attemptEnd, end <= now { endAttempt(entry) }
        guard let client = entry.phase.client else { return }
        let result = client.checkKeepAlive()
        if result != 0 { lose(entry, result) } else { update(entry) }
    }
}
#endif
