// The values of labels: a metric has no others, so that it costs the same however many jobs and servers there are.

extension RetryEvent.Trigger {
    static let all: [Self] = [.first, .timer, .reconnect, .condition, .retryNow]
}

extension GiveUp.Reason {
    static let all: [Self] = [.permanent, .attempts, .budget, .deadline, .waitLimit, .conditionEnded, .shutDown]
}

extension AttemptFailure.Fault {
    static let labels = [Self.network, .server, .overload(retryAfter: nil), .request, .local, .unknown].map(\.label)

    /// The fault without the server's order.
    var label: String {
        switch self {
        case .network: "network"
        case .server: "server"
        case .overload: "overload"
        case .request: "request"
        case .local: "local"
        case .unknown: "unknown"
        }
    }
}
