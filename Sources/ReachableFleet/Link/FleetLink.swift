/// The facts with which a member connects.
package struct FleetConnection: Hashable, Sendable {
    /// Its own for each run, so that machines of one name do not end each other's sessions.
    package var clientID: String
    /// `nil` for an observer.
    package var will: FleetMessage?
    package var keepAlive: Duration

    package init(clientID: String, will: FleetMessage?, keepAlive: Duration) {
        (self.clientID, self.will, self.keepAlive) = (clientID, will, keepAlive)
    }
}

/// The news of a connection, in order.
package enum FleetLinkEvent: Sendable {
    /// The broker has accepted the connection (CONNACK).
    case connected
    /// The broker has confirmed the subscription (SUBACK).
    case subscribed
    case message(FleetMessage)
    /// The connection has ended, or was never made; `nil` after ``FleetLink/disconnect()``. The last event.
    case ended(FleetError?)
}

/// One connection to a broker, with a clean session (MQTT 3.1.1 §3.1.2.4) and QoS 1.
///
/// No call blocks, and calls after the end do nothing. Safe to use from any thread.
package protocol FleetLink: Sendable {
    /// Begins to connect; called once, before all others.
    func open()
    /// Subscribes to filters; ``FleetLinkEvent/subscribed`` answers.
    func subscribe(_ filters: [String])
    /// Publishes a message.
    ///
    /// - Parameters:
    ///   - message: The message.
    ///   - answer: Called once: with true when the broker has the message (PUBACK), with false if the connection ends before.
    func publish(_ message: FleetMessage, _ answer: (@Sendable (Bool) -> Void)?)
    /// Ends the connection with DISCONNECT, so that the broker drops the will (§3.14.4), once it has all messages.
    func disconnect()
    /// Ends the connection at once, as a crash would: the broker publishes the will.
    func close()
}

/// Makes connections to one broker.
package protocol FleetTransport: Sendable {
    /// The broker in messages: host and port.
    var place: String { get }
    /// Makes a connection, which ``FleetLink/open()`` opens.
    ///
    /// - Parameters:
    ///   - connection: The client's identifier, will and keep-alive.
    ///   - receive: Takes the events, one at a time, on any thread, and does not block.
    func link(_ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) -> any FleetLink
}
