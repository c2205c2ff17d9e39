internal import DequeModule

/// A broker of MQTT 3.1.1 without a network, for tests of clients.
///
/// It keeps the protocol's promises: retained messages, wills, clean and stored sessions, takeovers, and the order of the messages
/// of a topic. Where brokers differ or break them, the test chooses: ``publishesWillsByItself``, ``takeoverWill``,
/// ``nextMessage(for:from:)`` in any order of topics, ``repeatMessage(for:)``, and ``restart(keepingStore:)``.
///
/// A value without a clock: the test decides when a keep-alive ends and calls ``loseConnection(_:)``.
public struct SimulatedBroker: Hashable, Sendable {
    /// A message as a client publishes or receives it.
    public struct Message: Hashable, Sendable {
        /// The topic.
        public var topic: String
        /// The payload; empty removes the retained message of the topic.
        public var payload: [UInt8]
        /// The retain flag: published, that the broker keeps the message; received, that it had kept it (§3.3.1.3).
        public var isRetained: Bool
        /// The quality of service: 0 or 1; a 2 is treated as 1.
        public var qos: Int

        /// Makes a message, by default of QoS 1 and not retained.
        public init(topic: String, payload: [UInt8], isRetained: Bool = false, qos: Int = 1) {
            (self.topic, self.payload, self.isRetained, self.qos) = (topic, payload, isRetained, qos)
        }
    }

    /// The time of the will of a session that another connection takes over.
    public enum TakeoverWill: Hashable, Sendable {
        /// Before anything that the new connection publishes.
        case atOnce
        /// After the first message that the new connection publishes, as mosquitto 2.0 does.
        case afterFirstMessage
    }

    /// The state that a client identifier has at the broker.
    private struct Session: Hashable, Sendable {
        var isConnected = true
        let isClean: Bool
        var will: Message?
        var filters: [String: Int] = [:]
        var queue: Deque<Message> = []
        /// The last delivered message of QoS 1.
        var delivered: Message?
        /// The will of the connection that this one has taken over.
        var inheritedWill: Message?
    }

    /// False to keep wills until ``publishHeldWills(_:)``.
    public var publishesWillsByItself = true
    /// The time of the will after a takeover; by default as mosquitto 2.0 does.
    public var takeoverWill = TakeoverWill.afterFirstMessage
    /// The wills that wait for ``publishHeldWills(_:)``.
    public private(set) var heldWills: [Message] = []
    /// The retained messages by topic.
    public private(set) var retained: [String: Message] = [:]
    private var sessions: [String: Session] = [:]

    /// Makes a broker without messages and sessions.
    public init() {}

    // MARK: - Connections

    /// Accepts a connection, which takes over an earlier one of the same client; returns true if a stored session continues.
    ///
    /// - Parameters:
    ///   - client: The identifier of the client.
    ///   - will: The message that the broker publishes if the connection is lost (§3.1.2.5).
    ///   - isClean: True to begin without subscriptions and queued messages, and to end with the connection (§3.1.2.4).
    @discardableResult
    public mutating func connect(_ client: String, will: Message? = nil, isClean: Bool = true) -> Bool {
        let old = sessions[client]
        var session = Session(isClean: isClean, will: will)
        let continues = old.map { !$0.isClean } == true && !isClean
        if continues, let old { (session.filters, session.queue) = (old.filters, old.queue) }
        if let old, old.isConnected, let will = old.will {
            if takeoverWill == .afterFirstMessage { session.inheritedWill = will } else { publishWill(will) }
        }
        sessions[client] = session
        return continues
    }

    /// Ends a connection in order: the broker drops its will (§3.14.4).
    public mutating func disconnect(_ client: String) {
        sessions[client]?.will = nil
        end(client)
    }

    /// Ends a connection without DISCONNECT and publishes its will (§3.1.2.5): it was closed, or its keep-alive has ended.
    public mutating func loseConnection(_ client: String) { end(client) }

    private mutating func end(_ client: String) {
        guard var session = sessions[client], session.isConnected else { return }
        let wills = [session.inheritedWill, session.will].compactMap(\.self)
        (session.isConnected, session.will, session.inheritedWill, session.delivered) = (false, nil, nil, nil)
        // Messages of QoS 0 are not stored for later (§3.1.2.4).
        session.queue.removeAll { $0.qos == 0 }
        sessions[client] = session.isClean ? nil : session
        for will in wills { publishWill(will) }
    }

    /// True while the broker takes a client for connected.
    public func isConnected(_ client: String) -> Bool { sessions[client]?.isConnected == true }

    private mutating func publishWill(_ will: Message) {
        if publishesWillsByItself { route(will) } else { heldWills.append(will) }
    }

    /// Publishes the wills that were held back, or only the first ones.
    public mutating func publishHeldWills(_ count: Int = .max) {
        for _ in 0..<min(max(0, count), heldWills.count) { route(heldWills.removeFirst()) }
    }

    /// Ends all connections and starts again: no will is published.
    ///
    /// - Parameter keepingStore: False to lose retained messages and stored sessions.
    public mutating func restart(keepingStore: Bool) {
        heldWills = []
        if !keepingStore { retained = [:] }
        sessions = keepingStore ? sessions.filter { !$0.value.isClean } : [:]
        for client in sessions.keys {
            sessions[client]?.isConnected = false
            sessions[client]?.will = nil
            sessions[client]?.inheritedWill = nil
        }
    }

    // MARK: - Messages

    /// Subscribes a connected client, and sends it the retained messages that match (§3.3.1.3).
    ///
    /// A subscription to a filter that the client has already sends them again (§3.8.4).
    public mutating func subscribe(_ client: String, to filter: String, qos: Int = 1) {
        guard isConnected(client) else { return }
        sessions[client]?.filters[filter] = min(qos, 1)
        for message in retained.values.sorted(by: { $0.topic < $1.topic }) where Self.matches(message.topic, filter) {
            var copy = message
            copy.qos = min(message.qos, qos, 1)
            sessions[client]?.queue.append(copy)
        }
    }

    /// Publishes a message of a connected client; others are dropped.
    public mutating func publish(_ message: Message, from client: String) {
        guard isConnected(client) else { return }
        route(message)
        if let will = sessions[client]?.inheritedWill {
            sessions[client]?.inheritedWill = nil
            publishWill(will)
        }
    }

    /// Keeps a message if it is retained, and queues it once for each client with a matching subscription (§3.3.5).
    private mutating func route(_ message: Message) {
        if message.isRetained { retained[message.topic] = message.payload.isEmpty ? nil : message }
        for (client, session) in sessions {
            let granted = session.filters.filter { Self.matches(message.topic, $0.key) }.values.max()
            guard let granted else { continue }
            var copy = message
            // It is a new message for those who have subscribed before (§3.3.1.3).
            copy.isRetained = false
            copy.qos = min(message.qos, granted, 1)
            if session.isConnected || copy.qos > 0 { sessions[client]?.queue.append(copy) }
        }
    }

    /// The topics of the messages that wait for a client, in the order of their first messages.
    public func waitingTopics(for client: String) -> [String] {
        var topics: [String] = []
        for message in sessions[client]?.queue ?? [] where !topics.contains(message.topic) { topics.append(message.topic) }
        return topics
    }

    /// The messages that wait for a client, in order.
    public func waitingMessages(for client: String) -> [Message] { Array(sessions[client]?.queue ?? []) }

    /// Delivers the next message to a connected client; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - client: The identifier of the client.
    ///   - topic: A topic whose next message overtakes those of other topics: only those of one topic are in order (§4.6).
    public mutating func nextMessage(for client: String, from topic: String? = nil) -> Message? {
        guard var session = sessions[client], session.isConnected,
            let index = session.queue.firstIndex(where: { topic == nil || $0.topic == topic })
        else { return nil }
        let message = session.queue.remove(at: index)
        if message.qos > 0 { session.delivered = message }
        sessions[client] = session
        return message
    }

    /// Delivers the last message of QoS 1 once more, as if its acknowledgement were lost (§4.3.2); `nil` if there is none.
    public func repeatMessage(for client: String) -> Message? { sessions[client]?.delivered }

    /// Returns true if a topic matches a filter (§4.7): `+` is one level, `#` is the rest.
    static func matches(_ topic: String, _ filter: String) -> Bool {
        let levels = topic.split(separator: "/", omittingEmptySubsequences: false)
        let pattern = filter.split(separator: "/", omittingEmptySubsequences: false)
        // Topics of the broker itself, such as $SYS, match no wildcard at their beginning (§4.7.2).
        if topic.utf8.first == UInt8(ascii: "$"), pattern.first == "+" || pattern.first == "#" { return false }
        for (index, part) in pattern.enumerated() {
            if part == "#" { return true }
            guard index < levels.count, part == "+" || part == levels[index] else { return false }
        }
        return levels.count == pattern.count
    }
}
