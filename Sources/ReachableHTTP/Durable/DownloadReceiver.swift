internal import Foundation
internal import FoundationNetworking
internal import ReachableRetry

/// A receiver that writes the body to the partial file of a durable download.
struct DownloadReceiver: PartReceiver {
    typealias Result = HTTPExchange<Void, HTTPStatusError>

    private let file: PartialFile
    private let attempt: Attempt
    private let length: Int64?
    private let onWrite: @Sendable (Int64) -> Void
    var partial: PartialDownload
    var asksForIdentity = false
    /// `nil` before a response: Foundation reports some redirects without a target only at their end.
    private var body: PartialDownload.Body?
    private var errorBody = Data()

    /// - Parameters:
    ///   - file: The file, with what has arrived.
    ///   - attempt: The attempt, to which progress is reported.
    ///   - length: The expected size of the whole.
    ///   - onWrite: Gets the number of bytes that have arrived, after each write.
    init(_ file: PartialFile, _ attempt: Attempt, length: Int64?, onWrite: @escaping @Sendable (Int64) -> Void) {
        (self.file, self.attempt, self.length, self.onWrite) = (file, attempt, length, onWrite)
        partial =
            file.record.map {
                PartialDownload(received: file.length, total: $0.total, validator: $0.validator)
            } ?? PartialDownload()
    }

    static func mismatch(_ expected: Int64, _ actual: Int64) -> DurableHTTPError {
        DurableHTTPError(
            .lengthMismatch, "the server's file has \(actual) bytes instead of \(expected)",
            next: "compare the URL and the expected length")
    }

    mutating func receive(_ response: HTTPURLResponse?) throws -> Result? {
        (errorBody, body) = (Data(), nil)
        try checkEncoding(of: response)
        // Others of 2xx have no file, or not the one of the URL (RFC 9110, section 15.3).
        guard let response, [200, 203, 206].contains(response.statusCode) || response.statusCode >= 300 else {
            body = .errorResponse
            return nil
        }
        let announced = response.expectedContentLength
        let body = partial.begin(
            status: response.statusCode, header: { response.value(forHTTPHeaderField: $0) },
            length: announced < 0 ? nil : announced)
        self.body = body
        switch body {
        case .errorResponse: break
        case .append:
            try expect(partial.total)
            try file.join(total: partial.total)
        case .restart:
            try expect(partial.total)
            try file.begin(
                validator: partial.validator, total: partial.total, status: response.statusCode,
                headers: HTTPStatusError(response: response, data: Data()).headers)
        case .complete:
            try expect(partial.total)
            return .value((), response)
        case .mismatch: return try reject()
        }
        return nil
    }

    mutating func receive(_ data: Data) throws -> Result? {
        if body == .errorResponse {
            errorBody += data.prefix(Download.errorBodyLimit - errorBody.count)
            return nil
        }
        // More than was announced: nothing that came with it can be believed.
        guard partial.accepts(data.count) else { return try reject() }
        let (received, isOver) = partial.received.addingReportingOverflow(Int64(data.count))
        if let length, isOver || received > length { throw Self.mismatch(length, received) }
        try file.append(data)
        partial.receive(data.count)
        attempt.report(partial, after: data.count)
        onWrite(partial.received)
        return nil
    }

    mutating func end(_ response: HTTPURLResponse?) throws -> Result {
        guard let response else { throw URLError(.badServerResponse) }
        guard let body, body != .errorResponse else {
            return .errorResponse(HTTPStatusError(response: response, data: errorBody))
        }
        guard partial.isComplete else { throw ShortPart() }
        return .value((), response)
    }

    private func expect(_ total: Int64?) throws {
        if let length, let total, total != length { throw Self.mismatch(length, total) }
    }

    private mutating func reject() throws -> Result? {
        partial.discard()
        try file.discard()
        throw URLError(.badServerResponse)
    }
}
