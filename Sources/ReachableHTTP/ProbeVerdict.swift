internal import Reachability

/// What the response to a probe says about the way, as far as it has arrived.
struct ProbeVerdict: Sendable {
    /// What was asked for.
    let url: String
    private let expectedStatus: Int
    private let expectedBody: [UInt8]?
    private var body: [UInt8] = []
    private var hasHead = false

    /// How much white space around the expected body is put up with.
    private static let slack = 1024

    /// Makes a verdict before anything has arrived.
    ///
    /// - Parameter body: the expected body without white space around it; `nil` for any. Of redirects, bodies are not seen.
    init(url: String, status: Int, body: [UInt8]?) {
        (self.url, expectedStatus, expectedBody) = (url, status, 300...399 ~= status ? nil : body)
    }

    /// Takes in a response's head; returns the verdict, unless it depends on the body.
    ///
    /// - Parameter location: where the response leads, as an absolute URL of HTTP.
    mutating func begin(status: Int, location: String?) -> PathValidation? {
        hasHead = true
        if status == expectedStatus { return expectedBody == nil ? .validated : nil }
        return switch status {
        case 300...399: .captivePortal(location ?? url)
        case 200...299, 511: .captivePortal(url)
        default: .failed("\(url) answered with status \(status)")
        }
    }

    /// Takes in a part of the body; returns the verdict once there is more than can be right.
    mutating func receive(_ data: some Collection<UInt8>) -> PathValidation? {
        let limit = (expectedBody?.count ?? 0) + Self.slack
        body += data.prefix(limit + 1 - body.count)
        return body.count > limit ? .captivePortal(url) : nil
    }

    /// The verdict about all that has arrived.
    func end() -> PathValidation {
        guard hasHead else { return .failed("\(url) sent no response of HTTP") }
        return expectedBody == nil || Self.trimmed(body) == expectedBody ? .validated : .captivePortal(url)
    }

    /// A body without the white space around it.
    static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> [UInt8] {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }
        guard let last = bytes.lastIndex(where: { !isSpace($0) }) else { return [] }
        return Array(bytes[...last].drop(while: isSpace))
    }
}
