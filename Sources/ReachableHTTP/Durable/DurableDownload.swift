public import Foundation
internal import FoundationNetworking
public import ReachableJobs
internal import ReachableRetry

/// The download of a file as a durable job: it continues where it broke off, also after a restart, until the file is in place.
///
/// ```swift
/// queue.registerDownloads { download, response, attempt in print("\(download.path) is there") }
/// try await queue.push(DurableDownload(url, to: file, sha256: digest))
/// ```
///
/// While it is incomplete, two hidden files are beside the destination, with the name of the file and the job's identity:
/// `.NAME.JOB.part` has the bytes, `.NAME.JOB.state` the validator that they depend on. Only this user may read them. When all
/// bytes are on the disk, the file is moved to the destination, where it replaces an older one; its mode is 0600.
///
/// An attempt asks for the rest only (`Range`, `If-Range`) if the server named the representation by a strong entity tag or,
/// without any tag, by a date of last modification at least one minute before its response. It starts over if the file has
/// changed, if the server sends the whole or a part that does not fit, or if the partial file is not as it was left. A kill costs
/// no byte that was written; a power failure at most 16 MiB.
///
/// A failure that ends the job at once, such as the status 404, removes the hidden files. They stay after a cancellation, and when
/// the job gives up after its last attempt or at its deadline: a retried job continues. ``removePartialFiles(of:)`` removes them.
public struct DurableDownload: JobParameters, Hashable {
    /// `http-download`.
    public static let jobName = "http-download"

    private let head: DurableHead
    /// The path of the file.
    public let path: String
    /// The expected size in bytes; `nil` accepts any.
    public let length: Int64?
    /// The expected SHA-256 in hexadecimal digits; `nil` accepts any.
    public let sha256: String?
    /// The job's place and limits, as in ``DurableRequest/options``; not part of the stored form.
    public var options: DurableOptions

    /// The URL.
    public var url: URL { head.url }
    /// The headers.
    public var headers: [String: String] { head.headers }

    /// Creates a download.
    ///
    /// - Parameters:
    ///   - url: The URL, of `http` or `https`.
    ///   - file: The destination, in a directory that exists. A relative path is completed now.
    ///   - headers: The headers, by name, except `Range` and `If-Range`.
    ///   - length: The expected size in bytes. Another size ends the job, if possible before the first byte.
    ///   - sha256: The expected SHA-256, in 64 hexadecimal digits. Another one ends the job, unless the file came in several
    ///     parts: then it starts over.
    /// - Throws: ``DurableHTTPError/Code/invalidPath``, ``DurableHTTPError/Code/invalidDigest``,
    ///   ``DurableHTTPError/Code/headTooLarge``, or the code of a part that cannot be sent.
    public init(
        _ url: URL, to file: URL, headers: [String: String] = [:], length: Int64? = nil, sha256: String? = nil
    ) throws(DurableHTTPError) {
        head = DurableHead(url: url, method: "GET", headers: headers, idempotency: .none)
        options = head.options
        try head.check(reserved: ["range", "if-range"])
        path = try FilePath.absolute(file)
        guard !path.hasSuffix("/"), !["", ".", ".."].contains(path.split(separator: "/").last ?? "") else {
            throw DurableHTTPError(.invalidPath, "the path is that of a directory", next: "add the name of the file")
        }
        (self.length, self.sha256) = (length, sha256?.lowercased())
        guard self.sha256.map({ $0.utf8.count == 64 && $0.utf8.allSatisfy(Self.isDigit) }) ?? true else {
            throw DurableHTTPError(.invalidDigest, "the SHA-256 is not one", next: "give its 64 hexadecimal digits")
        }
        try DurableHead.check(self)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    /// Removes what an unfinished download has left beside its destination; a download that is running starts over.
    ///
    /// For jobs that were cancelled or gave up.
    ///
    /// - Parameter job: The job.
    public func removePartialFiles(of job: DurableJobID) { PartialPaths(path, id: "\(job)").remove() }

    /// Makes one attempt; returns when the file is in place.
    func fetch(_ attempt: DurableAttempt, _ exchange: DurableExchange) async throws -> DurableResponse {
        let paths = PartialPaths(path, id: "\(attempt.id)")
        // An attempt that failed later, or was cut: its file need not be fetched again.
        if let record = PartialFile.placed(paths, key: attempt.idempotencyKey) {
            return DurableResponse(status: record.status, headers: record.headers)
        }
        let file: PartialFile
        do {
            file = try PartialFile.open(paths, key: attempt.idempotencyKey)
        } catch {
            throw ClassifiedError(ofFile: error)
        }
        defer { file.close() }
        do {
            if !file.isComplete { try await receive(file, attempt, exchange) }
            return try await finish(file)
        } catch let error as ClassifiedError {
            if error.report?.mayRetry == false, !Task.isCancelled { file.remove() }
            throw error
        }
    }

    private func receive(_ file: PartialFile, _ attempt: DurableAttempt, _ exchange: DurableExchange) async throws {
        let (session, length) = (exchange.options.session, length)
        let onWrite = exchange.options.onWrite
        try await exchange.perform(head, attempt) { request in
            let run = attempt.attempt
            var receiver = DownloadReceiver(file, run, length: length) { onWrite?($0) }
            run.reportProgress(kept: file.most)
            do {
                return try await session.download(request, HTTPRetryOptions(), run, &receiver)
            } catch {
                run.reportProgress(kept: receiver.partial.kept)
                throw error
            }
        }
    }

    /// Compares the file with the expectations, and moves it to the destination.
    private func finish(_ file: PartialFile) async throws -> DurableResponse {
        do {
            if let length, file.length != length { throw DownloadReceiver.mismatch(length, file.length) }
            if let sha256, try await file.digest() != sha256 {
                let error = DurableHTTPError(
                    .digestMismatch, "the downloaded file does not have the expected SHA-256",
                    next: "compare the URL and the digest; the file was removed")
                // The server may have mixed up the parts.
                guard file.record?.isJoined == true else { throw error }
                try file.discard()
                throw ClassifiedError(error) { _ in FailureReport(.unclassified) }
            }
            let record = try file.place()
            return DurableResponse(status: record.status, headers: record.headers)
        } catch let error as ClassifiedError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw ClassifiedError(ofFile: error)
        }
    }
}

extension DurableDownload: Codable {
    private enum CodingKeys: CodingKey { case path, length, sha256 }

    /// Decodes a stored download; its ``options`` are those derived from the URL.
    public init(from decoder: any Decoder) throws {
        head = try DurableHead(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try container.decode(String.self, forKey: .path)
        length = try container.decodeIfPresent(Int64.self, forKey: .length)
        sha256 = try container.decodeIfPresent(String.self, forKey: .sha256)
        options = head.options
    }

    /// Encodes the download without its ``options``, which the store keeps itself.
    public func encode(to encoder: any Encoder) throws {
        try head.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(path, forKey: .path)
        try container.encodeIfPresent(length, forKey: .length)
        try container.encodeIfPresent(sha256, forKey: .sha256)
    }
}

extension DurableDownload: CustomStringConvertible {
    /// The host and port.
    public var description: String { "GET \(url.destination ?? "")" }
}
