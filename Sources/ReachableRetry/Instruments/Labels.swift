// The values of labels: a metric has no others, so that it costs the same however many jobs and servers there are.

extension RetryEvent.Trigger {
    static let all: [Self] = [.first, .timer, .reconnect, .condition, .retryNow]
}

extension GiveUp.Reason {
    static let all: [Self] = [.permanent, .attempts, .budget, .deadline, .waitLimit, .conditionEnded, .shutDown]
}

extension FailureClass {
    static let labels = [FailureClass.connectivity, .transient, .server(retryAfter: nil), .permanent].map(\.label)

    /// The class without what the server said.
    var label: String {
        switch self {
        case .connectivity: "connectivity"
        case .transient: "transient"
        case .server: "server"
        case .permanent: "permanent"
        }
    }
}
