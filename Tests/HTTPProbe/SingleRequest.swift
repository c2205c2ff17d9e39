import Foundation

/// One request of the probe, or the same download several times.
struct SingleRequest {
    let kind: String
    let url: URL
    /// The method of a request for data.
    let method: String
    /// The length of an upload.
    let size: Int
    /// The number of downloads.
    let times: Int

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
