import Foundation

/// One request of the probe, or the same download or post several times.
struct SingleRequest {
    let kind: String
    let url: URL
    /// The method of a request for data.
    let method: String
    /// The length of an upload.
    let size: Int
    /// The number of downloads or of posts.
    let times: Int
    /// A second URL, for the kind `names`.
    let next: URL?

    /// Returns the status and a description of the body.
    func run(by client: some ProbeClient) async throws -> String {
        switch kind {
        case "upload": return "\(try await client.upload("PUT", url, size: size))"
        case "download":
            var description = ""
            for number in 0..<times {
                let (status, file) = try await client.download(url, number: number)
                description = try describe(status, file)
            }
            return description
        // One after the other, each to a path of its own, and whatever comes of it.
        case "posts":
            for number in 0..<times {
                _ = try? await client.upload("POST", url.appendingPathComponent("\(number)"), size: size)
            }
            return "posted"
        // A host that no name server knows, and then another one.
        case "names":
            if (try? await client.data(method, url)) != nil { return "found" }
            let (status, length) = try await client.data(method, next ?? url)
            return "\(status) \(length)"
        default:
            let (status, length) = try await client.data(method, url)
            return "\(status) \(length)"
        }
    }

    private func describe(_ status: Int, _ file: URL) throws -> String {
        defer { try? FileManager.default.removeItem(at: file) }
        let data = try Data(contentsOf: file)
        return "\(status) \(data.count) \(data.reduce(into: UInt64(0)) { $0 += UInt64($1) })"
    }
}
