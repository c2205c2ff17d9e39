/// The word of a node: its state, with the numbers that order words.
struct FleetWord: Hashable, Sendable {
    /// The number of the node's connection.
    var epoch: UInt64
    /// The epoch of the first word of this run: of two machines of one name, the one with the higher number came later.
    var first: UInt64
    /// The identifier of the run (`boot`).
    var run: FleetName
    /// The number of the word within its run; of a will that of the word before it.
    var sequence: UInt64
    /// Never ``FleetNode/State/unknown``.
    var state: FleetNode.State
    var reason: String?
    /// The time since which the state holds, in seconds since 1970.
    var since: UInt64

    /// True if both run and first epoch say that this word's run came after another one.
    func isOfLaterRun(than run: FleetName, first: UInt64) -> Bool { (self.first, self.run) > (first, run) }
}

/// The payload of a trigger.
struct TriggerWord: Hashable, Sendable {
    /// The run of the operator's process (`from`).
    var sender: FleetName
    var sequence: UInt64
    /// The time after which no node acts, in seconds since 1970 (`until`).
    var deadline: UInt64
}

/// A message to publish; all messages have QoS 1.
package struct FleetMessage: Hashable, Sendable {
    package var topic: String
    /// Empty to remove a retained message (MQTT 3.1.1 §3.3.1.3).
    package var payload: [UInt8]
    package var isRetained: Bool

    package init(topic: String, payload: [UInt8], isRetained: Bool) {
        (self.topic, self.payload, self.isRetained) = (topic, payload, isRetained)
    }
}

extension FleetMessage {
    /// Returns the word of a node of a test; `nil` for a state that no node says.
    package static func word(
        _ state: FleetNode.State, of node: FleetName, site: FleetName, epoch: UInt64, sequence: UInt64, reason: String?,
        since: Duration
    ) -> FleetMessage? {
        guard state != .unknown else { return nil }
        let word = FleetWord(
            epoch: epoch, first: epoch, run: node, sequence: sequence, state: state, reason: reason,
            since: FleetInstant.seconds(since))
        return FleetMessage(
            topic: FleetTopic.status(node).text(site: site), payload: WordCoding.payload(word), isRetained: true)
    }
}
