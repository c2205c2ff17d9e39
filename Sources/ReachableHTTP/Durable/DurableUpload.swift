public import Foundation
internal import FoundationNetworking
public import ReachableJobs
internal import ReachableRetry

/// The upload of a file as a durable job: it is sent until the server has stored or refused it, also after a restart.
///
/// ```swift
/// queue.registerUploads { upload, response, attempt in print("stored with \(response.status)") }
/// try await queue.push(DurableUpload(photo, to: url))
/// ```
///
/// The file stays where it is, and its contents are never in memory as a whole. Its size and time of modification are recorded
/// when the value is created. Each attempt compares them before it sends, and again afterwards, so that no mixture of two versions
/// passes for a success. A file that has changed or is gone fails the job at once: ``DurableHTTPError/Code/fileChanged``,
/// ``DurableHTTPError/Code/fileChangedWhileSent``, ``DurableHTTPError/Code/fileMissing``. Complete the file some milliseconds
/// before: the clock of a file system may be as coarse as 10 ms, or 2 s on FAT.
public struct DurableUpload: JobParameters, Hashable {
    /// `http-upload`.
    public static let jobName = "http-upload"

    private let head: DurableHead
    /// The path of the file.
    public let path: String
    private let stamp: FileStamp
    /// The job's place and limits, as in ``DurableRequest/options``; not part of the stored form.
    public var options: DurableOptions

    /// The URL.
    public var url: URL { head.url }
    /// The method.
    public var method: String { head.method }
    /// The headers.
    public var headers: [String: String] { head.headers }
    /// The rule for the header `Idempotency-Key`.
    public var idempotency: DurableIdempotency { head.idempotency }
    /// The size of the file in bytes.
    public var size: Int64 { stamp.size }

    /// Creates an upload of a file as it is now.
    ///
    /// - Parameters:
    ///   - file: The file. A relative path is completed now.
    ///   - url: The URL, of `http` or `https`.
    ///   - method: The method; case-sensitive.
    ///   - headers: The headers, by name.
    ///   - idempotency: The rule for the header `Idempotency-Key`.
    /// - Throws: ``DurableHTTPError/Code/fileMissing`` or ``DurableHTTPError/Code/fileUnreadable``;
    ///   ``DurableHTTPError/Code/headTooLarge``, or the code of a part that cannot be sent.
    public init(
        _ file: URL, to url: URL, method: String = "PUT", headers: [String: String] = [:],
        idempotency: DurableIdempotency = .automatic
    ) throws(DurableHTTPError) {
        head = DurableHead(url: url, method: method, headers: headers, idempotency: idempotency)
        options = head.options
        try head.check()
        path = try FilePath.absolute(file)
        stamp = try UploadFile.stamp(of: path)
        try DurableHead.check(self)
    }

    /// The part that all kinds have.
    var common: DurableHead { head }

    /// Makes one attempt.
    func send(_ attempt: DurableAttempt, _ exchange: DurableExchange) async throws -> DurableResponse {
        let file: UploadFile
        do {
            file = try UploadFile(path, expecting: stamp)
        } catch {
            throw ClassifiedError(ofFile: error)
        }
        let response: DurableResponse
        do {
            response = try await exchange.load(head, attempt, .openFile(file.handle, length: Int(size)))
        } catch {
            // The reason, if the file became shorter.
            if !Task.isCancelled { try file.check(isSent: false) }
            throw error
        }
        try file.check(isSent: true)
        return response
    }
}

extension DurableUpload: Codable {
    private enum CodingKeys: CodingKey { case path, file }

    /// Decodes a stored upload; its ``options`` are those derived from the URL.
    public init(from decoder: any Decoder) throws {
        head = try DurableHead(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try container.decode(String.self, forKey: .path)
        stamp = try container.decode(FileStamp.self, forKey: .file)
        options = head.options
    }

    /// Encodes the upload without its ``options``, which the store keeps itself.
    public func encode(to encoder: any Encoder) throws {
        try head.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(path, forKey: .path)
        try container.encode(stamp, forKey: .file)
    }
}

extension DurableUpload: CustomStringConvertible {
    /// The method, the host and port, and the size of the file.
    public var description: String { "\(method) \(url.destination ?? ""), a file of \(size) bytes" }
}
